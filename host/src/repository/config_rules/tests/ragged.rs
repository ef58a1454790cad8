use model::{DataType, GeneratedInput, GeneratedKind, RaggedConfig};

use super::{accepted, parameter, refused};

const X: &str = "max_batch_size: 8 input { name: \"x\" data_type: TYPE_FP32 dims: -1 allow_ragged_batch: true }\n";
const Y: &str = "output { name: \"y\" data_type: TYPE_FP32 dims: -1 }\n";

fn batch_input(fields: &str) -> String {
    format!("{X}batch_input {{ {fields} }}")
}

#[test]
fn a_model_says_what_is_ragged_what_is_generated_and_what_is_scattered() {
    let generated = "batch_input [ { kind: BATCH_ITEM_SHAPE target_name: [ \"a\", \"b\" ] data_type: TYPE_FP32 source_input: \"x\" },
        { target_name: \"n\" data_type: TYPE_INT32 source_input: \"x\" } ]\n";
    let text = format!("{X}{Y}{generated}batch_output {{ target_name: \"y\" source_input: \"x\" }}");
    let input = |kind, data_type| GeneratedInput { kind, data_type, source: "x".into() };
    let shape = || input(GeneratedKind::ItemShape, DataType::Fp32);
    let expected = RaggedConfig {
        inputs: ["x".into()].into(),
        generated: [
            ("a".into(), shape()),
            ("b".into(), shape()),
            ("n".into(), input(GeneratedKind::ElementCount, DataType::Int32)),
        ]
        .into(),
        scattered: [("y".into(), "x".into())].into(),
    };
    assert_eq!(accepted(&text).ragged, expected);
    assert!(accepted("input { name: \"x\" data_type: TYPE_FP32 dims: -1 optional: true }").ragged.is_empty());
}

#[test]
fn generated_inputs_are_held_to_tritons_rules() {
    const TYPE: &str = "data_type: batch input data type must be TYPE_INT32 or TYPE_FP32 for m (fix: write data_type: TYPE_INT32, or TYPE_FP32)";
    const SOURCE: &str = "name one input that requests bring";
    let cases = [
        (
            "target_name: \"n\" data_type: TYPE_INT64 source_input: \"x\"",
            format!("2:32: batch_input[0].{TYPE}"),
        ),
        ("target_name: \"n\" source_input: \"x\"", format!("2:1: batch_input[0].{TYPE}")),
        (
            "target_name: \"n\" data_type: TYPE_INT32",
            format!("2:1: batch_input[0].source_input: batch input kind 'BATCH_ELEMENT_COUNT' expects 1 source input, got 0 for m (fix: {SOURCE})"),
        ),
        (
            "kind: BATCH_ITEM_SHAPE target_name: \"n\" data_type: TYPE_INT32 source_input: [ \"x\", \"x\" ]",
            format!("2:77: batch_input[0].source_input: batch input kind 'BATCH_ITEM_SHAPE' expects 1 source input, got 2 for m (fix: {SOURCE})"),
        ),
        (
            "target_name: \"n\" data_type: TYPE_INT32 source_input: \"z\"",
            "2:54: batch_input[0].source_input: unknown source input name 'z' for m (fix: declare it as an input, or name one that is)".to_owned(),
        ),
        (
            "kind: 9 target_name: \"n\" data_type: TYPE_INT32 source_input: \"x\"",
            "2:15: batch_input[0].kind: unknown batch input kind '9' for m (fix: write kind: BATCH_ELEMENT_COUNT, or another kind by its name)".to_owned(),
        ),
        (
            "data_type: TYPE_INT32 source_input: \"x\"",
            "2:1: batch_input[0].target_name: batch input must specify 'target_name' for m (fix: name the model's input)".to_owned(),
        ),
        (
            "target_name: [ \"n\", \"n\" ] data_type: TYPE_INT32 source_input: \"x\"",
            "2:15: batch_input[0].target_name: target input name 'n' can only be specified once for m (fix: remove one of them)".to_owned(),
        ),
        (
            "target_name: \"x\" data_type: TYPE_INT32 source_input: \"x\"",
            "2:15: batch_input[0].target_name: 'x' is an input that requests bring, and one of batch_input, for m (fix: leave input 'x' out: the server generates it)".to_owned(),
        ),
    ];
    for (fields, expected) in cases {
        refused(&batch_input(fields), &[&expected]);
    }
}

#[test]
fn scattered_outputs_are_held_to_tritons_rules() {
    let output = |fields: &str| format!("{X}{Y}batch_output {{ {fields} }}");
    let cases = [
        (
            output("target_name: \"y\""),
            "3:1: batch_output[0].source_input: batch output kind 'BATCH_SCATTER_WITH_INPUT_SHAPE' expects 1 source input, got 0 for m (fix: name one input that requests bring)",
        ),
        (
            output("target_name: \"z\" source_input: \"x\""),
            "3:16: batch_output[0].target_name: unknown target output name 'z' for m (fix: declare it as an output, with the dims that a request gets)",
        ),
        (
            output("target_name: [ \"y\", \"y\" ] source_input: \"x\""),
            "3:16: batch_output[0].target_name: target output name 'y' can only be specified once for m (fix: remove one of them)",
        ),
        (
            output("kind: 1 target_name: \"y\" source_input: \"x\""),
            "3:16: batch_output[0].kind: unknown batch output kind '1' for m (fix: write kind: BATCH_SCATTER_WITH_INPUT_SHAPE)",
        ),
        (
            output("target_name: \"y\" source_input: \"x\"").replace("dims: -1 }\nbatch", "dims: [ 2, -1 ] }\nbatch"),
            "3:33: batch_output[0].source_input: output 'y' is free in its dims[1], which source input 'x' does not have, for m (fix: give the output a size there, or name another input)",
        ),
    ];
    for (text, expected) in cases {
        refused(&text, &[expected]);
    }
}

#[test]
fn what_does_not_go_together_with_ragged_batches_is_refused() {
    let input = |more: &str| format!("input {{ name: \"z\" data_type: TYPE_FP32 dims: 1 {more} }}\n");
    let reshaped = "2:48: input[1].reshape: 'z' is part of a ragged batch and has a reshape, for m (fix: leave reshape out, and write the dims of a request)";
    refused(
        &format!("{X}{}", input("allow_ragged_batch: true reshape { shape: [ ] }")),
        &[&reshaped.replace(":48", ":73")],
    );
    let source = "batch_input { target_name: \"n\" data_type: TYPE_INT32 source_input: \"z\" }";
    refused(&format!("{X}{}{source}", input("reshape { shape: [ ] }")), &[reshaped]);
    refused(
        &format!("{X}{}", parameter("airlock.padding.input.x", "")),
        &[
            "2:1: parameters: ragged batches and the parameters airlock.padding do not go together, for m (fix: keep one of the two ways to batch different shapes)",
        ],
    );
    let alone = X.replace("max_batch_size: 8 ", "");
    refused(
        &format!("{alone}{}", input("optional: true")),
        &[
            "2:48: input[1].optional: optional input 'z' and ragged batches do not go together, for m (fix: leave optional out)",
        ],
    );
    refused(
        &input("optional: true allow_ragged_batch: true"),
        &[
            "1:48: input[0].optional: unable to load model 'm', configuration expects model provides input with shape [-1] for ragged input 'z', which is not supported for optional input (fix: leave optional out)",
        ],
    );
}
