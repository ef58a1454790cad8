;; A whole component that exports an interface named as a pipeline's.
(component
  (instance $pipeline)
  (export "airlock:plugin/pipeline@0.1.0" (instance $pipeline)))
