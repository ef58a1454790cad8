//! The rewriting itself, on a model's bytes in memory: some fields are replaced, all others stay byte for byte. Field numbers
//! are those of `onnx.proto`.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use super::message::{Edit, Found, edited, field, fields, number, text_of};
use super::{Labels, Rewritten};

/// Field of `ModelProto`.
pub(super) const MODEL_GRAPH: u64 = 7;
/// Field of `GraphProto`.
pub(super) const GRAPH_NODE: u64 = 1;
/// Field of `NodeProto`.
pub(super) const NODE_OPERATOR: u64 = 4;

const MODEL_OPSET: u64 = 8;
const OPSET_DOMAIN: u64 = 1;
const OPSET_VERSION: u64 = 2;
const GRAPH_INPUT: u64 = 11;
const GRAPH_OUTPUT: u64 = 12;
const GRAPH_VALUE_INFO: u64 = 13;
const NODE_INPUT: u64 = 1;
const NODE_OUTPUT: u64 = 2;
const NODE_NAME: u64 = 3;
const NODE_ATTRIBUTE: u64 = 5;
const ATTRIBUTE_NAME: u64 = 1;
const ATTRIBUTE_INTEGERS: u64 = 8;
const ATTRIBUTE_STRINGS: u64 = 9;

/// The standard operators' version that a model gets which uses none of them; `Identity` is in all.
const OPSET: u64 = 13;
/// `TensorProto.DataType.FLOAT`, the only type of scores that `ZipMap` takes.
const FLOAT: u64 = 1;

/// The model with tensors in the place of maps; `None` where there is nothing to change, or the bytes are no model.
pub(super) fn rewritten(model: &[u8]) -> Option<Rewritten> {
    let model_fields = fields(model)?;
    let graph_field = model_fields.iter().find(|field| field.number == MODEL_GRAPH)?;
    let graph = Graph::read(graph_field.bytes(model)?)?;
    let (mut edits, labels) = graph.scores()?;
    edits.extend(graph.answers()?);
    if edits.is_empty() {
        return None;
    }
    let graph = edited(graph.content, edits);
    let mut bytes = edited(model, vec![Edit { span: graph_field.span.clone(), with: field(MODEL_GRAPH, &graph) }]);
    if !model_fields.iter().any(|field| field.number == MODEL_OPSET && is_standard(field.bytes(model))) {
        bytes.extend(field(MODEL_OPSET, &number(OPSET_VERSION, OPSET)));
    }
    Some(Rewritten { bytes, labels })
}

/// Whether an opset is that of the standard operators, whose domain has no name or this one.
fn is_standard(opset: Option<&[u8]>) -> bool {
    opset.is_some_and(|opset| matches!(text_of(opset, OPSET_DOMAIN).as_deref(), Some("" | "ai.onnx")))
}

/// A graph, taken apart as far as needed.
struct Graph<'g> {
    content: &'g [u8],
    fields: Vec<Found>,
    nodes: Vec<Node<'g>>,
}

impl<'g> Graph<'g> {
    fn read(content: &'g [u8]) -> Option<Self> {
        let fields = fields(content)?;
        let nodes = fields.iter().filter(|field| field.number == GRAPH_NODE);
        let nodes = nodes.map(|field| Node::read(field.span.clone(), field.bytes(content)?)).collect::<Option<_>>()?;
        Some(Self { content, fields, nodes })
    }

    fn values(&self, number: u64) -> impl Iterator<Item = Option<Value>> {
        self.fields.iter().filter(move |field| field.number == number).map(|field| Value::read(field, self.content))
    }

    /// Turns each output that is a list of maps into the tensor that the maps are made from.
    fn scores(&self) -> Option<(Vec<Edit>, Labels)> {
        let outputs: BTreeSet<String> =
            self.values(GRAPH_OUTPUT).map(|value| Some(value?.name)).collect::<Option<_>>()?;
        let mut edits = Vec::new();
        let mut labels = Labels::new();
        for node in self.nodes.iter().filter(|node| node.operator == "ZipMap") {
            let Some((output, classes)) = node.outputs.first().zip(node.class_labels()) else { continue };
            if outputs.contains(output) {
                edits.push(Edit { span: node.span.clone(), with: node.identity() });
                labels.insert(output.as_str().into(), Arc::from(classes));
            }
        }
        for value in self.values(GRAPH_OUTPUT).chain(self.values(GRAPH_VALUE_INFO)) {
            let value = value?;
            if let Some(classes) = labels.get(value.name.as_str()) {
                edits.push(value.with_tensor(FLOAT, &[None, Some(classes.len() as u64)]));
            }
        }
        Some((edits, labels))
    }

    /// Frees the first dimension of each answer of a classifier that is declared to be one, though the model takes any
    /// number of rows: onnxmltools declares so, and a model with a fixed dimension cannot batch.
    fn answers(&self) -> Option<Vec<Edit>> {
        let takes_rows = |value: &Value| value.tensor.as_ref().is_some_and(|(_, dims)| dims.first() == Some(&None));
        let inputs: Vec<Value> = self.values(GRAPH_INPUT).collect::<Option<_>>()?;
        if inputs.is_empty() || !inputs.iter().all(takes_rows) {
            return Some(Vec::new());
        }
        let mut edits = Vec::new();
        for value in self.values(GRAPH_OUTPUT) {
            let value = value?;
            if let Some((element_type, dims)) = &value.tensor
                && dims[..] == [Some(1)]
                && self.is_answer(&value.name)
            {
                edits.push(value.with_tensor(*element_type, &[None]));
            }
        }
        Some(edits)
    }

    /// Whether a value is a classifier's answer, perhaps handed on by operators that keep its shape.
    fn is_answer(&self, name: &str) -> bool {
        let mut name = name;
        // As many steps as there are operators: a graph that is no graph may lead in a circle.
        for _ in &self.nodes {
            let makes = |node: &&Node<'_>| node.outputs.iter().any(|output| output == name);
            let Some(node) = self.nodes.iter().find(makes) else { return false };
            match node.operator.as_str() {
                "LinearClassifier" | "SVMClassifier" | "TreeEnsembleClassifier" => {
                    return node.outputs.first().is_some_and(|output| output == name);
                }
                "Cast" | "Identity" => name = node.inputs.first().map_or("", String::as_str),
                _ => return false,
            }
        }
        false
    }
}

/// An operator of a graph.
struct Node<'g> {
    span: Range<usize>,
    content: &'g [u8],
    operator: String,
    inputs: Vec<String>,
    outputs: Vec<String>,
}

impl<'g> Node<'g> {
    fn read(span: Range<usize>, content: &'g [u8]) -> Option<Self> {
        let fields = fields(content)?;
        let texts = |number: u64| {
            let texts = fields.iter().filter(|field| field.number == number);
            texts.map(|field| String::from_utf8(field.bytes(content)?.to_vec()).ok()).collect::<Option<Vec<_>>>()
        };
        let operator = text_of(content, NODE_OPERATOR)?;
        Some(Self { span, content, operator, inputs: texts(NODE_INPUT)?, outputs: texts(NODE_OUTPUT)? })
    }

    /// The labels of a `ZipMap`; `None` where it has none, which ONNX Runtime refuses.
    fn class_labels(&self) -> Option<Vec<String>> {
        let attributes = fields(self.content)?.into_iter().filter(|field| field.number == NODE_ATTRIBUTE);
        attributes.filter_map(|attribute| labels_of(attribute.bytes(self.content)?)).next()
    }

    /// An operator that hands the scores through.
    fn identity(&self) -> Vec<u8> {
        let name = text_of(self.content, NODE_NAME).unwrap_or_default();
        let inputs = self.inputs.iter().map(|input| (NODE_INPUT, input.as_str()));
        let outputs = self.outputs.iter().map(|output| (NODE_OUTPUT, output.as_str()));
        let texts = inputs.chain(outputs).chain([(NODE_NAME, name.as_str()), (NODE_OPERATOR, "Identity")]);
        let node: Vec<u8> = texts.flat_map(|(number, text)| field(number, text.as_bytes())).collect();
        field(GRAPH_NODE, &node)
    }
}

/// The class labels in an attribute of a `ZipMap`, integers as decimal numbers.
fn labels_of(attribute: &[u8]) -> Option<Vec<String>> {
    let fields = fields(attribute)?;
    let text = |field: &Found| Some(String::from_utf8_lossy(field.bytes(attribute)?).into_owned());
    let labels: Vec<String> = match text_of(attribute, ATTRIBUTE_NAME)?.as_str() {
        "classlabels_strings" => {
            fields.iter().filter(|field| field.number == ATTRIBUTE_STRINGS).map(text).collect::<Option<_>>()?
        }
        "classlabels_int64s" => {
            let integers = fields.iter().filter(|field| field.number == ATTRIBUTE_INTEGERS);
            integers.flat_map(|field| field.integers(attribute)).map(|label| label.to_string()).collect()
        }
        _ => return None,
    };
    (!labels.is_empty()).then_some(labels)
}

/// A `ValueInfoProto`: the name and type of an input, an output or a value in between.
struct Value {
    number: u64,
    span: Range<usize>,
    name: String,
    /// Element type and dimensions, `None` for a free one; of what is no tensor, or has no shape, nothing.
    tensor: Option<(u64, Vec<Option<u64>>)>,
}

impl Value {
    const NAME: u64 = 1;
    const TYPE: u64 = 2;
    const TYPE_TENSOR: u64 = 1;
    const TENSOR_ELEMENT: u64 = 1;
    const TENSOR_SHAPE: u64 = 2;
    const SHAPE_DIMENSION: u64 = 1;
    const DIMENSION_VALUE: u64 = 1;

    fn read(found: &Found, graph: &[u8]) -> Option<Self> {
        let content = found.bytes(graph)?;
        let (number, span) = (found.number, found.span.clone());
        Some(Self { number, span, name: text_of(content, Self::NAME)?, tensor: Self::tensor(content) })
    }

    fn tensor(content: &[u8]) -> Option<(u64, Vec<Option<u64>>)> {
        let inner = |message: &'_ [u8], number: u64| -> Option<Vec<u8>> {
            let fields = fields(message)?;
            Some(fields.iter().find(|field| field.number == number)?.bytes(message)?.to_vec())
        };
        let integer = |message: &[u8], number: u64| -> Option<u64> {
            fields(message)?.iter().find(|field| field.number == number)?.varint()
        };
        let tensor = inner(&inner(content, Self::TYPE)?, Self::TYPE_TENSOR)?;
        let shape = inner(&tensor, Self::TENSOR_SHAPE)?;
        let dims = fields(&shape)?;
        let dims = dims.iter().filter(|field| field.number == Self::SHAPE_DIMENSION);
        let dims =
            dims.map(|field| Some(integer(field.bytes(&shape)?, Self::DIMENSION_VALUE))).collect::<Option<_>>()?;
        Some((integer(&tensor, Self::TENSOR_ELEMENT)?, dims))
    }

    /// Puts a tensor of this type in its place.
    fn with_tensor(&self, element_type: u64, dims: &[Option<u64>]) -> Edit {
        let dim = |dim: &Option<u64>| {
            let value = dim.map(|value| number(Self::DIMENSION_VALUE, value)).unwrap_or_default();
            field(Self::SHAPE_DIMENSION, &value)
        };
        let shape: Vec<u8> = dims.iter().flat_map(dim).collect();
        let tensor = [number(Self::TENSOR_ELEMENT, element_type), field(Self::TENSOR_SHAPE, &shape)].concat();
        let name = field(Self::NAME, self.name.as_bytes());
        let value = [name, field(Self::TYPE, &field(Self::TYPE_TENSOR, &tensor))].concat();
        Edit { span: self.span.clone(), with: field(self.number, &value) }
    }
}
