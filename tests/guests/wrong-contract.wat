;; A whole component that exports an interface of the right name with nothing in it.
(component
  (instance $adapter)
  (export "airlock:plugin/adapter@0.1.0" (instance $adapter)))
