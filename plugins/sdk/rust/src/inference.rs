//! Building what is asked of the model, and finding an output by its name.

use crate::{Inference, Parameter, ParameterValue, PluginError, Prepared, Response, Tensor};

impl Inference {
    /// Asks for all outputs, with no parameters and nothing carried.
    #[must_use]
    pub fn new(inputs: impl Into<Vec<Tensor>>) -> Self {
        Self { inputs: inputs.into(), outputs: Vec::new(), parameters: Vec::new(), carry: Vec::new() }
    }

    /// Names the outputs that `postprocess` needs; they come in this order.
    #[must_use]
    pub fn outputs<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.outputs = names.into_iter().map(Into::into).collect();
        self
    }

    /// Adds a request parameter of the v2 protocol.
    #[must_use]
    pub fn parameter(mut self, name: impl Into<String>, value: ParameterValue) -> Self {
        self.parameters.push(Parameter { name: name.into(), value });
        self
    }

    /// Hands bytes to `postprocess`.
    #[must_use]
    pub fn carry(mut self, carry: impl Into<Vec<u8>>) -> Self {
        self.carry = carry.into();
        self
    }
}

impl From<Inference> for Prepared {
    fn from(inference: Inference) -> Self {
        Self::Infer(inference)
    }
}

impl From<Response> for Prepared {
    fn from(response: Response) -> Self {
        Self::Respond(response)
    }
}

/// The output with this name.
///
/// # Errors
/// `internal`, with the names there are, where there is none.
pub fn output<'a>(outputs: &'a [Tensor], name: &str) -> Result<&'a Tensor, PluginError> {
    outputs.iter().find(|tensor| tensor.name == name).ok_or_else(|| {
        let names: Vec<&str> = outputs.iter().map(|tensor| tensor.name.as_str()).collect();
        PluginError::internal(format!("the model answered no output `{name}`; it answered {names:?}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inference_keeps_what_it_was_given() {
        let tensor = Tensor::fp32("x", [1], &[1.0]);
        let inference = Inference::new([tensor.clone()])
            .outputs(["b", "a"])
            .parameter("priority", ParameterValue::Unsigned(2))
            .carry(b"c".as_slice());
        assert_eq!(inference.inputs, [tensor]);
        assert_eq!(inference.outputs, ["b", "a"]);
        assert_eq!(inference.parameters[0].name, "priority");
        assert_eq!(inference.carry, b"c");
    }

    #[test]
    fn a_missing_output_is_named_beside_those_there_are() {
        let outputs = [Tensor::fp32("x", [1], &[1.0])];
        assert_eq!(output(&outputs, "x").unwrap().name, "x");
        let error = output(&outputs, "y").unwrap_err();
        let PluginError::Internal(text) = error else { panic!("{error:?}") };
        assert_eq!(text, "the model answered no output `y`; it answered [\"x\"]");
    }
}
