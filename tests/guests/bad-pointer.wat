;; Answers with a body that lies outside its memory.
(func (export "airlock:plugin/adapter@0.1.0#preprocess") (param $request i32) (result i32)
  (call $respond (i32.const 0x7fff0000) (i32.const 0x100)))
