;; Prints the body to standard error. Then, where it begins with `s`, sleeps for an hour; else answers 24 bytes: two
;; random numbers and the clock.
(import "wasi:cli/stderr@0.2.0" "get-stderr" (func $stderr (result i32)))
(import "wasi:io/streams@0.2.0" "[method]output-stream.blocking-write-and-flush"
  (func $write (param i32 i32 i32 i32)))
(import "wasi:io/streams@0.2.0" "[resource-drop]output-stream" (func $close (param i32)))
(import "wasi:random/random@0.2.0" "get-random-u64" (func $random (result i64)))
(import "wasi:clocks/monotonic-clock@0.2.0" "now" (func $now (result i64)))
(import "wasi:clocks/monotonic-clock@0.2.0" "subscribe-duration" (func $after (param i64) (result i32)))
(import "wasi:io/poll@0.2.0" "[method]pollable.block" (func $block (param i32)))
(func (export "airlock:plugin/adapter@0.1.0#preprocess") (param $request i32) (result i32)
  (local $stream i32)
  (local $body i32)
  (local.set $body (i32.load (i32.add (local.get $request) (i32.const 60))))
  (local.set $stream (call $stderr))
  (call $write
    (local.get $stream) (local.get $body) (i32.load (i32.add (local.get $request) (i32.const 64))) (i32.const 4096))
  (call $close (local.get $stream))
  (if (i32.eq (i32.load8_u (local.get $body)) (i32.const 0x73))
    (then (call $block (call $after (i64.const 3600000000000)))))
  (i64.store (i32.const 4096) (call $random))
  (i64.store (i32.const 4104) (call $random))
  (i64.store (i32.const 4112) (call $now))
  (call $respond (i32.const 4096) (i32.const 24)))
