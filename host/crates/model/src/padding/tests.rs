use std::collections::BTreeMap;

use bytes::Bytes;

use super::*;
use crate::config::{Boundaries, CutOutput, FilledInput, FilledKind, PadTo, PaddedInput, PaddingConfig};
use crate::{DataType, Signature, TensorSpec};

fn spec(name: &str, data_type: DataType, shape: &[i64]) -> TensorSpec {
    TensorSpec { name: name.into(), data_type, shape: shape.to_vec() }
}

/// Like BERT: ids and types as long as each other, a mask, a hidden state per token and one per row.
fn bert() -> Signature {
    Signature {
        inputs: vec![
            spec("input_ids", DataType::Int64, &[-1, -1]),
            spec("attention_mask", DataType::Int64, &[-1, -1]),
            spec("token_type_ids", DataType::Int64, &[-1, -1]),
        ],
        outputs: vec![
            spec("last_hidden_state", DataType::Fp32, &[-1, -1, 4]),
            spec("pooler_output", DataType::Fp32, &[-1, 4]),
        ],
        optional_inputs: 0,
    }
}

/// Like a ranker: features of a user, features of candidates, how many there are, a history of another length.
fn ranker() -> Signature {
    Signature {
        inputs: vec![
            spec("user", DataType::Fp32, &[-1, 8]),
            spec("candidates", DataType::Fp32, &[-1, -1, 3]),
            spec("count", DataType::Int32, &[-1, 1]),
            spec("history", DataType::Bytes, &[-1, -1]),
            spec("extra", DataType::Uint8, &[-1, -1, 2]),
        ],
        outputs: vec![spec("scores", DataType::Fp32, &[-1, -1]), spec("pairs", DataType::Fp32, &[-1, -1, -1])],
        optional_inputs: 0,
    }
}

fn length(name: Option<&str>) -> Arc<str> {
    name.unwrap_or(PaddingConfig::DEFAULT_LENGTH).into()
}

fn padded(length_name: Option<&str>, axis: Option<usize>, value: Option<&str>) -> PaddedInput {
    PaddedInput { length: length(length_name), axis, value: value.map(str::to_owned) }
}

fn filled(kind: FilledKind) -> FilledInput {
    FilledInput { length: length(None), kind }
}

fn cut(axis: Option<usize>) -> CutOutput {
    CutOutput { length: length(None), axis }
}

fn named<T, const N: usize>(entries: [(&str, T); N]) -> BTreeMap<Arc<str>, T> {
    entries.into_iter().map(|(name, value)| (name.into(), value)).collect()
}

fn bert_padding() -> PaddingConfig {
    PaddingConfig {
        inputs: named([("input_ids", padded(None, None, Some("7"))), ("token_type_ids", padded(None, None, None))]),
        filled: named([("attention_mask", filled(FilledKind::Mask))]),
        outputs: named([("last_hidden_state", cut(None))]),
        buckets: BTreeMap::new(),
    }
}

fn ranker_padding() -> PaddingConfig {
    PaddingConfig {
        inputs: named([
            ("candidates", padded(None, Some(1), Some("-inf"))),
            ("history", padded(Some("past"), None, Some("[PAD]"))),
        ]),
        filled: named([("count", filled(FilledKind::Lengths))]),
        outputs: named([("scores", cut(None)), ("pairs", cut(Some(2)))]),
        buckets: named([("past", Buckets { boundaries: Boundaries::Listed(vec![2, 4]), pad_to: PadTo::Boundary })]),
    }
}

fn tensor(name: &str, shape: &[u64]) -> Tensor {
    let len = usize::try_from(shape.iter().product::<u64>()).expect("small");
    Tensor::new(name.into(), DataType::Uint8, shape.to_vec(), Bytes::from(vec![0; len])).expect("fits")
}

fn bert_request(ids: u64, types: u64) -> Vec<Tensor> {
    vec![tensor("input_ids", &[2, ids]), tensor("token_type_ids", &[2, types])]
}

/// `history` of this length besides three candidates, and two of what is not padded.
fn ranker_request(history: u64) -> Vec<Tensor> {
    let shapes: [(&str, &[u64]); 4] =
        [("user", &[1, 8]), ("candidates", &[1, 3, 3]), ("history", &[1, history]), ("extra", &[1, 2, 2])];
    shapes.iter().map(|(name, shape)| tensor(name, shape)).collect()
}

fn names(specs: &[TensorSpec]) -> Vec<&str> {
    specs.iter().map(|spec| &*spec.name).collect()
}

#[test]
fn what_the_server_fills_in_is_no_part_of_what_is_served() {
    let (served, padding) = bert_padding().resolve(&bert(), 8).expect("fits");
    assert_eq!(names(&served.inputs), ["input_ids", "token_type_ids"]);
    assert_eq!(served.outputs, bert().outputs);
    let one = PaddedAxis { length: 0, axis: 1 };
    let [ids, mask, types] = padding.inputs() else { panic!("three inputs, as the model has") };
    assert!(matches!(ids, BatchInput::Padded { input: 0, axis, .. } if *axis == one), "{ids:?}");
    assert!(matches!(mask, BatchInput::Mask { axis, rank: 2, .. } if *axis == one), "{mask:?}");
    assert!(matches!(types, BatchInput::Padded { input: 1, axis, .. } if *axis == one), "{types:?}");
    assert_eq!(padding.outputs(), [Some(one), None]);
}

#[test]
fn lengths_are_told_apart_by_name() {
    let (served, padding) = ranker_padding().resolve(&ranker(), 8).expect("fits");
    assert_eq!(names(&served.inputs), ["user", "candidates", "history", "extra"]);
    let request = ranker_request(3);
    assert_eq!(padding.lengths(&request).collect::<Vec<_>>(), [3, 3]);
    let mut longest = [3, 3];
    padding.padded(&mut longest);
    assert_eq!(longest, [3, 4], "to the longest request, and to the boundary");
    assert_eq!(padding.key(&request), [4, 4, 2], "two buckets, and what is free and not padded");
    let axes = |length, axis| Some(PaddedAxis { length, axis });
    assert_eq!(padding.outputs(), [axes(0, 1), axes(0, 2)]);
    assert!(matches!(&padding.inputs()[2], BatchInput::Lengths { length: 0, rank: 2, .. }));
}

#[test]
fn requests_in_one_bucket_have_one_key() {
    let (_, padding) = bert_padding().resolve(&bert(), 8).expect("fits");
    let key = |length| padding.key(&bert_request(length, length));
    assert_eq!(key(5), key(8));
    assert_ne!(key(8), key(9));
    assert_ne!(key(0), key(1), "an empty request is never padded");
}

#[test]
fn requests_whose_lengths_do_not_fit_are_refused() {
    let (_, bert) = bert_padding().resolve(&bert(), 8).expect("fits");
    let (_, ranker) = ranker_padding().resolve(&ranker(), 8).expect("fits");
    let differ = "inputs 'input_ids' and 'token_type_ids' for model 'm' must have the same length, got 3 and 4";
    let bound = |got| format!("input 'history' for model 'm' must have a length from 1 to 4, got {got}");
    let cases = [
        (&bert, bert_request(3, 3), None),
        (&bert, bert_request(0, 0), None),
        (&bert, bert_request(3, 4), Some(differ.to_owned())),
        (&ranker, ranker_request(4), None),
        (&ranker, ranker_request(5), Some(bound(5))),
        (&ranker, ranker_request(0), Some(bound(0))),
    ];
    for (padding, request, expected) in cases {
        assert_eq!(padding.check(&request).err().map(|mismatch| mismatch.text("m")), expected);
    }
    let mut config = ranker_padding();
    let boundaries = Boundaries::PowersOfTwo;
    config.buckets = named([("past", Buckets { boundaries, pad_to: PadTo::Boundary })]);
    let (_, padding) = config.resolve(&self::ranker(), 8).expect("fits");
    let mismatch = padding.check(&ranker_request(0)).expect_err("nothing to pad");
    assert_eq!(mismatch.text("m"), "input 'history' for model 'm' must have a length of at least 1, got 0");
}

/// A change of [`ranker_padding`] and what is wrong with it.
type Case = (fn(&mut PaddingConfig), &'static str);

#[test]
fn everything_that_does_not_fit_the_model_is_named_with_a_way_out() {
    let cases: [Case; 15] = [
        (
            |config| drop(config.inputs.insert("x".into(), padded(None, None, None))),
            "'airlock.padding.input.x': the model has no input 'x'; it has 'user', 'candidates', 'count', 'history', 'extra'; name one of these",
        ),
        (
            |config| drop(config.filled.insert("x".into(), filled(FilledKind::Mask))),
            "'airlock.padding.mask.x': the model has no input 'x'; it has 'user', 'candidates', 'count', 'history', 'extra'; name one of these",
        ),
        (
            |config| drop(config.outputs.insert("user".into(), cut(None))),
            "'airlock.padding.output.user': the model has no output 'user'; it has 'scores', 'pairs'; name one of these",
        ),
        (
            |config| drop(config.inputs.insert("user".into(), padded(None, None, None))),
            "'airlock.padding.input.user': input 'user' of shape [-1,8] has 0 free dimensions other than the batch's; remove the parameter",
        ),
        (
            |config| drop(config.inputs.insert("candidates".into(), padded(None, Some(2), None))),
            "'airlock.padding.input.candidates': axis 2 of input 'candidates' of shape [-1,-1,3] is not a free dimension other than the batch's; write axis=1, or leave axis out where there is one",
        ),
        (
            |config| drop(config.inputs.insert("candidates".into(), padded(None, Some(0), None))),
            "'airlock.padding.input.candidates': axis 0 of input 'candidates' of shape [-1,-1,3] is not a free dimension other than the batch's; write axis=1, or leave axis out where there is one",
        ),
        (
            |config| drop(config.inputs.insert("user".into(), padded(None, Some(7), None))),
            "'airlock.padding.input.user': axis 7 of input 'user' of shape [-1,8] is not a free dimension other than the batch's; remove the parameter",
        ),
        (
            |config| drop(config.inputs.insert("extra".into(), padded(None, None, Some("256")))),
            "'airlock.padding.input.extra': value '256' is none of input 'extra', whose type is UINT8; write a whole number the type can hold",
        ),
        (
            |config| drop(config.filled.insert("history".into(), filled(FilledKind::Mask))),
            "'airlock.padding.mask.history': input 'history' is padded and filled in by the server at once; keep one of the two parameters",
        ),
        (
            |config| drop(config.filled.insert("user".into(), filled(FilledKind::Mask))),
            "'airlock.padding.mask.user': mask 'user' is FP32 [-1,8]; it must be a number or BOOL, of the batch dimension, one free dimension and any of size 1; let the client send it, and pad it",
        ),
        (
            |config| drop(config.filled.insert("extra".into(), filled(FilledKind::Mask))),
            "'airlock.padding.mask.extra': mask 'extra' is UINT8 [-1,-1,2]; it must be a number or BOOL, of the batch dimension, one free dimension and any of size 1; let the client send it, and pad it",
        ),
        (
            |config| drop(config.filled.insert("extra".into(), filled(FilledKind::Lengths))),
            "'airlock.padding.lengths.extra': input 'extra' is UINT8 [-1,-1,2]; lengths must be INT32, INT64, UINT32, UINT64, FP32 or FP64, of the batch dimension and any of size 1; let the client send it, and pad it",
        ),
        (
            |config| drop(config.outputs.insert("pairs".into(), cut(None))),
            "'airlock.padding.output.pairs': output 'pairs' of shape [-1,-1,-1] has 2 free dimensions other than the batch's; write axis=1 or axis=2",
        ),
        (
            |config| {
                config.outputs.insert("scores".into(), CutOutput { length: "items".into(), axis: None });
            },
            "'airlock.padding.output.scores': no padded input has the length 'items'; write length=length or length=past",
        ),
        (
            |config| drop(config.buckets.insert("future".into(), Buckets::default())),
            "'airlock.padding.buckets.future': no padded input has the length 'future'; write length=length or length=past",
        ),
    ];
    for (change, expected) in cases {
        let mut config = ranker_padding();
        change(&mut config);
        let errors = config.resolve(&ranker(), 8).expect_err(expected);
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
    }
}

#[test]
fn an_input_grows_in_one_direction_only() {
    let wide = Signature { inputs: vec![spec("x", DataType::Uint8, &[-1, -1, -1])], ..Signature::default() };
    let config = PaddingConfig { inputs: named([("x", padded(None, Some(1), None))]), ..PaddingConfig::default() };
    let errors = config.resolve(&wide, 8).expect_err("two free dimensions");
    assert_eq!(
        errors[0].to_string(),
        "'airlock.padding.input.x': input 'x' of shape [-1,-1,-1] has 2 free dimensions other than the batch's; a padded input has exactly one: give the others a size in dims"
    );
}

#[test]
fn what_is_alone_or_never_sent_cannot_be_padded() {
    let errors = bert_padding().resolve(&bert(), 0).expect_err("no batches");
    assert_eq!(
        errors[0].to_string(),
        "'airlock.padding.input.input_ids': padding needs a model that batches, and max_batch_size is 0; set max_batch_size, or remove the parameter"
    );
    let config = PaddingConfig { inputs: BTreeMap::new(), outputs: BTreeMap::new(), ..bert_padding() };
    let errors = config.resolve(&bert(), 8).expect_err("nothing has a length");
    assert_eq!(
        errors[0].to_string(),
        "'airlock.padding.mask.attention_mask': no padded input has the length 'length'; pad an input with a parameter airlock.padding.input.<input>"
    );
    assert!(PaddingConfig::default().is_empty() && !config.is_empty());
}
