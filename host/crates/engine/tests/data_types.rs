//! Every v2 data type through real ONNX Runtime, in all the shapes that are easy to get wrong.

mod common;

use common::{config, fixture, floats, instance, load, load_path, run, strings, submit, tensor, to_floats};
use model::{BatchLayout, DataType, EngineError, Tensor};

/// Six distinct elements.
fn six(data_type: DataType) -> Vec<u8> {
    match data_type {
        DataType::Bool => vec![0, 1, 1, 0, 0, 1],
        DataType::Bytes => {
            strings(&[&b"one"[..], b"", b"nul\0inside", b"\xff\xfe not utf-8", "h\u{e9}".as_bytes(), b"six"])
        }
        // Bits that survive only when nobody reads them as numbers: infinities, NaNs with a payload, negative zero.
        DataType::Fp16 | DataType::Bf16 => {
            [0x7c01_u16, 0xfc00, 0x8000, 0x0001, 0x7f81, 0x3c00].map(u16::to_le_bytes).concat()
        }
        DataType::Fp32 => {
            [0x7fc0_1234_u32, 0xff80_0000, 0x8000_0000, 1, 0x3f80_0000, 0x7f7f_ffff].map(u32::to_le_bytes).concat()
        }
        other => {
            let size = other.element_size().expect("a number");
            (0..6 * size).map(|i| u8::try_from(i * 41 % 251).expect("below 251")).collect()
        }
    }
}

#[test]
fn rows_of_every_type_come_back_unchanged() {
    for data_type in DataType::ALL {
        let file = format!("identity_{}.onnx", data_type.v2_name().to_lowercase());
        let loaded = load(&file, &config(8));
        assert_eq!(loaded.signature.inputs[0].data_type, data_type);
        assert_eq!(loaded.signature.inputs[0].shape, [-1, -1], "named dimensions are free ones");
        assert_eq!(loaded.provider, "CPUExecutionProvider");
        let mut instance = instance(loaded);

        let whole = tensor(data_type, &[3, 2], six(data_type));
        // Twice: the second batch reuses what the first one made.
        for _ in 0..2 {
            let slot =
                instance.prepare(&BatchLayout { shapes: vec![vec![3, 2]], ..BatchLayout::default() }).expect("memory");
            for row in whole.split_rows(&[1, 2]) {
                slot.append(0, row.data());
            }
            let output = submit(&mut *instance).expect("runs");
            assert_eq!(output.tensors.len(), 1);
            assert_eq!(&**output.tensors[0].name(), "y");
            assert_eq!(output.tensors[0].shape(), [3, 2], "{data_type}");
            assert_eq!(output.tensors[0].data(), whole.data(), "{data_type}");
        }
    }
}

#[test]
fn all_types_at_once_without_batching() {
    let loaded = load("identity_all_types.onnx", &config(0));
    let inputs: Vec<Tensor> =
        loaded.signature.inputs.iter().map(|spec| tensor(spec.data_type, &[2, 3], six(spec.data_type))).collect();
    assert_eq!(inputs.len(), 14);
    let output = run(&mut *instance(loaded), &inputs).expect("runs");
    for (input, output) in inputs.iter().zip(&output.tensors) {
        assert_eq!(
            (input.data_type(), input.shape(), input.data()),
            (output.data_type(), output.shape(), output.data())
        );
    }
}

#[test]
fn tensors_without_elements_run() {
    for data_type in DataType::ALL {
        let file = format!("identity_{}.onnx", data_type.v2_name().to_lowercase());
        let mut instance = instance(load(&file, &config(8)));
        let output = run(&mut *instance, &[tensor(data_type, &[2, 0], vec![])]).expect("runs");
        assert_eq!(output.tensors[0].shape(), [2, 0]);
        assert!(output.tensors[0].data().is_empty());
        // And what follows is not disturbed.
        let whole = tensor(data_type, &[3, 2], six(data_type));
        let output = run(&mut *instance, std::slice::from_ref(&whole)).expect("runs");
        assert_eq!(output.tensors[0].data(), whole.data());
    }
}

#[test]
fn an_output_without_elements_is_an_answer() {
    let mut instance = instance(load("positive.onnx", &config(0)));
    let output = run(&mut *instance, &[floats(&[3], &[-1.0, 0.0, -2.0])]).expect("runs");
    assert_eq!((output.tensors[0].shape(), output.tensors[0].data().len()), (&[1, 0][..], 0));
    let output = run(&mut *instance, &[floats(&[3], &[-1.0, 5.0, 2.0])]).expect("runs");
    assert_eq!(output.tensors[0].shape(), [1, 2]);
    assert_eq!(&output.tensors[0].data()[..], [1_i64, 2].map(i64::to_le_bytes).concat());
}

#[test]
fn a_scalar_is_one_element_outside() {
    let loaded = load("scalar.onnx", &config(0));
    assert_eq!(loaded.signature.inputs[0].shape, [1]);
    let mut instance = instance(loaded);
    let output = run(&mut *instance, &[floats(&[1], &[21.0])]).expect("runs");
    assert_eq!(output.tensors[0].shape(), [1]);
    assert_eq!(to_floats(output.tensors[0].data()), [42.0]);
    let error = instance
        .prepare(&BatchLayout { shapes: vec![vec![2]], ..BatchLayout::default() })
        .err()
        .expect("two elements are no scalar");
    assert!(matches!(error, EngineError::Run(_)), "{error}");
}

#[test]
fn bools_other_than_0_and_1_become_1() {
    let mut instance = instance(load("identity_bool.onnx", &config(8)));
    let output = run(&mut *instance, &[tensor(DataType::Bool, &[1, 4], vec![0, 1, 2, 255])]).expect("runs");
    assert_eq!(&output.tensors[0].data()[..], [0, 1, 1, 1]);
}

#[test]
fn strings_are_bytes_in_and_out() {
    let mut instance = instance(load("strings.onnx", &config(8)));
    let input = strings(&[&b"a"[..], b"", b"x\0y", b"\xc3("]);
    let output = run(&mut *instance, &[tensor(DataType::Bytes, &[2, 2], input)]).expect("runs");
    assert_eq!(output.tensors[0].shape(), [2, 2]);
    assert_eq!(&output.tensors[0].data()[..], strings(&[&b"a!"[..], b"!", b"x\0y!", b"\xc3(!"]));
    // A batch of large strings leaves nothing behind in a smaller one.
    let large = vec![b'z'; 3 << 20];
    let output = run(&mut *instance, &[tensor(DataType::Bytes, &[1, 1], strings(&[&large]))]).expect("runs");
    assert_eq!(output.tensors[0].data().len(), 4 + large.len() + 1);
    let output = run(&mut *instance, &[tensor(DataType::Bytes, &[1, 1], strings(&["s"]))]).expect("runs");
    assert_eq!(&output.tensors[0].data()[..], strings(&["s!"]));
}

#[test]
fn free_dimensions_may_change_from_batch_to_batch() {
    let loaded = load("dynamic.onnx", &config(4));
    assert_eq!(loaded.signature.inputs[0].shape, [-1, -1, 4]);
    let mut instance = instance(loaded);
    for (rows, time) in [(1, 1), (4, 7), (2, 0), (1, 3000), (4, 7)] {
        let count = usize::try_from(rows * time * 4).expect("small");
        let values: Vec<f32> = (0..count).map(|i| i as f32).collect();
        let output = run(&mut *instance, &[floats(&[rows, time, 4], &values)]).expect("runs");
        assert_eq!(output.tensors[0].shape(), [rows, time, 4]);
        let negated: Vec<f32> = values.iter().map(|value| -value).collect();
        assert_eq!(to_floats(output.tensors[0].data()), negated);
    }
}

#[test]
fn a_tensor_of_the_batch_dimension_alone_batches() {
    let mut instance = instance(load("rank_one.onnx", &config(4)));
    let output = run(&mut *instance, &[floats(&[3], &[1.0, 2.0, 3.0])]).expect("runs");
    assert_eq!(to_floats(output.tensors[0].data()), [-1.0, -2.0, -3.0]);
}

#[test]
fn memory_of_a_huge_batch_is_refused_not_aborted() {
    let mut instance = instance(load_path(&fixture("identity_uint8.onnx"), &config(8)).expect("loads"));
    let layout = BatchLayout { shapes: vec![vec![8, 1 << 55]], ..BatchLayout::default() };
    let error = instance.prepare(&layout).err().expect("nobody has that much");
    assert_eq!(error, EngineError::Memory { bytes: 8 << 55 });
    let layout = BatchLayout { shapes: vec![vec![u64::MAX, 2]], ..BatchLayout::default() };
    assert!(matches!(instance.prepare(&layout).err(), Some(EngineError::Run(_))));
    let layout = BatchLayout::default();
    assert!(matches!(instance.prepare(&layout).err(), Some(EngineError::Run(_))));
    let output = run(&mut *instance, &[tensor(DataType::Uint8, &[1, 2], vec![1, 2])]).expect("still runs");
    assert_eq!(&output.tensors[0].data()[..], [1, 2]);
}
