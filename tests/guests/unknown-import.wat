;; A whole component that exports what it should and imports what no host has.
(component
  (import "acme:vault/secrets@1.0.0" (instance))
  (core module $empty)
  (instance $adapter)
  (export "airlock:plugin/adapter@0.1.0" (instance $adapter)))
