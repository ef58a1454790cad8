use std::num::NonZeroU64;

use model::{Boundaries, Buckets, FilledKind, PadTo};

use super::{accepted, parameter, refused};

/// Like BERT, every tensor declared.
const BERT: &str = "max_batch_size: 8
input [ { name: \"input_ids\" data_type: TYPE_INT64 dims: [ -1 ] },
        { name: \"token_type_ids\" data_type: TYPE_INT64 dims: [ -1 ] },
        { name: \"attention_mask\" data_type: TYPE_INT64 dims: [ -1 ] } ]
output [ { name: \"last_hidden_state\" data_type: TYPE_FP32 dims: [ -1, 4 ] },
         { name: \"pooler_output\" data_type: TYPE_FP32 dims: [ 4 ] } ]
";

fn with(text: &str, parameters: &[(&str, &str)]) -> String {
    let lines = parameters.iter().map(|(key, value)| parameter(&format!("airlock.padding.{key}"), value));
    text.to_owned() + &lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_model_like_bert_says_what_grows_what_is_filled_in_and_what_is_cut() {
    let padding = accepted(&with(
        BERT,
        &[
            ("input.input_ids", "value=7"),
            ("input.token_type_ids", ""),
            ("mask.attention_mask", ""),
            ("output.last_hidden_state", "axis=1"),
            ("buckets", "boundaries=16,32,64 pad_to=boundary"),
        ],
    ))
    .padding;
    assert_eq!(padding.inputs["input_ids"].value.as_deref(), Some("7"));
    assert_eq!(padding.inputs["token_type_ids"].value, None);
    assert_eq!(padding.filled["attention_mask"].kind, FilledKind::Mask);
    assert_eq!(padding.outputs["last_hidden_state"].axis, Some(1));
    let expected = Buckets { boundaries: Boundaries::Listed(vec![16, 32, 64]), pad_to: PadTo::Boundary };
    assert_eq!(padding.buckets["length"], expected);
}

#[test]
fn lengths_have_names_where_a_model_has_several() {
    let padding = accepted(&with(
        "",
        &[
            ("input.a.b", "length=items axis=1 value=[PAD]=x"),
            ("input.c", "length=past"),
            ("lengths.n", "length=items"),
            ("buckets.items", "step=50 pad_to=longest"),
            ("buckets.past", ""),
        ],
    ))
    .padding;
    let item = &padding.inputs["a.b"];
    assert_eq!((&*item.length, item.axis, item.value.as_deref()), ("items", Some(1), Some("[PAD]=x")));
    assert_eq!((&*padding.inputs["c"].length, &*padding.filled["n"].length), ("past", "items"));
    let step = Boundaries::Step(NonZeroU64::new(50).expect("50"));
    assert_eq!(padding.buckets["items"], Buckets { boundaries: step, pad_to: PadTo::Longest });
    assert_eq!(padding.buckets["past"], Buckets::default());
}

#[test]
fn the_examples_of_the_document_are_accepted() {
    let document = include_str!("../../../../../docs/padding.md");
    let blocks: Vec<&str> = document.split("```").filter_map(|block| block.strip_prefix("protobuf\n")).collect();
    let [bert, ranker] = &blocks[..] else { panic!("{} examples", blocks.len()) };
    let padding = accepted(&(BERT.to_owned() + bert)).padding;
    assert_eq!((padding.inputs.len(), padding.filled.len(), padding.outputs.len()), (2, 1, 1));
    let padding = accepted(ranker).padding;
    assert_eq!((padding.inputs.len(), padding.filled.len(), padding.outputs.len()), (2, 2, 1));
}

/// The only problem, shown from its field on.
fn problem_of(key: &str, value: &str, expected: &str) {
    let text = with("", &[(key, value)]);
    let problems = super::parse(&text).expect_err(&text);
    let shown: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let [problem] = &shown[..] else { panic!("{shown:?}") };
    assert!(problem.ends_with(&format!(": {expected}")), "{problem} does not end with {expected}");
}

#[test]
fn what_a_value_must_not_be_is_refused() {
    let long = format!("boundaries={}", (1..=257).map(|number| number.to_string()).collect::<Vec<_>>().join(","));
    let cases = [
        (
            "input.x",
            "axes=1",
            "'airlock.padding.input.x' has the word 'axes=1', which it does not know (fix: did you mean 'axis'?)",
        ),
        (
            "output.x",
            "pad",
            "'airlock.padding.output.x' has the word 'pad', which it does not know (fix: write length=… or axis=…)",
        ),
        (
            "mask.x",
            "value=1",
            "'airlock.padding.mask.x' has the word 'value=1', which it does not know (fix: write length=…)",
        ),
        ("input.x", "axis=1 axis=2", "'airlock.padding.input.x' has 'axis' twice (fix: keep one of them)"),
        (
            "input.x",
            "axis=-1",
            "'airlock.padding.input.x' has axis '-1'; it must be a whole number from 0 to 2147483648",
        ),
        ("input.x", "length=", "'airlock.padding.input.x' has an empty length (fix: write length=tokens, say)"),
        ("buckets", "step=0", "'airlock.padding.buckets' has step '0'; it must be a whole number from 1 to 2147483648"),
        (
            "buckets",
            "boundaries=16,",
            "'airlock.padding.buckets' has boundary ''; it must be a whole number from 1 to 2147483648",
        ),
        ("buckets", "boundaries=16,16", "'airlock.padding.buckets' has boundary 16 after 16; they must ascend"),
        (
            "buckets",
            "boundaries=16 step=8",
            "'airlock.padding.buckets' has boundaries and a step (fix: keep one of them)",
        ),
        (
            "buckets",
            "pad_to=boundry",
            "'airlock.padding.buckets' has pad_to 'boundry'; it must be longest or boundary (fix: did you mean 'boundary'?)",
        ),
        (
            "buckets",
            &long,
            "'airlock.padding.buckets' has 257 boundaries; it may have 256 (fix: write step=…, or fewer)",
        ),
        (
            "inputs.x",
            "",
            "unknown parameter 'airlock.padding.inputs.x' (fix: known: airlock.padding.input.<input>, airlock.padding.mask.<input>, airlock.padding.lengths.<input>, airlock.padding.output.<output>, airlock.padding.buckets and airlock.padding.buckets.<length>)",
        ),
        (
            "input",
            "",
            "unknown parameter 'airlock.padding.input' (fix: known: airlock.padding.input.<input>, airlock.padding.mask.<input>, airlock.padding.lengths.<input>, airlock.padding.output.<output>, airlock.padding.buckets and airlock.padding.buckets.<length>)",
        ),
    ];
    for (key, value, expected) in cases {
        problem_of(key, value, expected);
    }
}

#[test]
fn what_is_given_twice_is_refused() {
    refused(
        &with("", &[("mask.n", ""), ("lengths.n", "")]),
        &[
            "1:53: parameters[airlock.padding.mask.n].string_value: input 'n' is filled in as a mask and as lengths (fix: keep one of the two parameters)",
        ],
    );
    refused(
        &with("", &[("buckets", ""), ("buckets.length", "")]),
        &[
            "2:61: parameters[airlock.padding.buckets.length].string_value: the buckets of length 'length' are given twice (fix: keep one of the two parameters)",
        ],
    );
}

#[test]
fn what_does_not_fit_the_declared_tensors_is_told_at_its_parameter() {
    let declared = with(BERT, &[("input.input_ids", "value=x"), ("output.pooler_output", "")]);
    refused(
        &declared,
        &[
            "7:62: parameters[airlock.padding.input.input_ids].string_value: value 'x' is none of input 'input_ids', whose type is INT64 (fix: write a whole number the type can hold)",
            "8:67: parameters[airlock.padding.output.pooler_output].string_value: output 'pooler_output' of shape [-1,4] has 0 free dimensions other than the batch's (fix: remove the parameter)",
        ],
    );
    let alone = with(&BERT.replace("max_batch_size: 8", "max_batch_size: 0"), &[("input.input_ids", "")]);
    refused(
        &alone,
        &[
            "7:62: parameters[airlock.padding.input.input_ids].string_value: padding needs a model that batches, and max_batch_size is 0 (fix: set max_batch_size, or remove the parameter)",
        ],
    );
}
