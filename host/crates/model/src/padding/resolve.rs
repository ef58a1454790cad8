//! From what a configuration asks for to what it means for a model, or to everything that does not fit.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{BatchInput, CountType, Fill, Length, PaddedAxis, Padding, PaddingError, PaddingFault};
use crate::config::{FilledInput, FilledKind, PaddedInput, PaddingConfig};
use crate::{DataType, Signature, TensorSpec};

impl PaddingConfig {
    /// What this means for a model that has the signature `model`, and the signature that is served: without the inputs
    /// that the server fills in. `max_batch_size` 0 means that the model does not batch.
    ///
    /// # Errors
    /// Every parameter that does not fit, with what to do about it.
    pub fn resolve(&self, model: &Signature, max_batch_size: u32) -> Result<(Signature, Padding), Vec<PaddingError>> {
        let mut resolver = Resolver::new(self);
        if max_batch_size == 0 {
            let parameter = self.keys().next().unwrap_or_default();
            return Err(vec![PaddingError { parameter, fault: PaddingFault::NoBatches }]);
        }
        resolver.check_names(model);
        let mut served = Vec::with_capacity(model.inputs.len());
        let inputs: Vec<BatchInput> =
            model.inputs.iter().filter_map(|spec| resolver.input(spec, &mut served)).collect();
        let outputs = model.outputs.iter().map(|spec| resolver.output(spec)).collect();
        let Resolver { lengths, free, errors, .. } = resolver;
        if !errors.is_empty() {
            return Err(errors);
        }
        let lengths = lengths.into_values().map(|(_, length)| length).collect();
        let signature = Signature { inputs: served, ..model.clone() };
        Ok((signature, Padding { lengths, inputs, outputs, free }))
    }

    /// The key of every parameter.
    fn keys(&self) -> impl Iterator<Item = String> + '_ {
        let inputs = self.inputs.keys().map(|name| input_key(name));
        let filled = self.filled.iter().map(|(name, filled)| filled_key(name, filled.kind));
        let outputs = self.outputs.keys().map(|name| output_key(name));
        inputs.chain(filled).chain(outputs).chain(self.buckets.keys().map(|length| buckets_key(length)))
    }
}

fn input_key(name: &str) -> String {
    format!("airlock.padding.input.{name}")
}

fn filled_key(name: &str, kind: FilledKind) -> String {
    match kind {
        FilledKind::Mask => format!("airlock.padding.mask.{name}"),
        FilledKind::Lengths => format!("airlock.padding.lengths.{name}"),
    }
}

fn output_key(name: &str) -> String {
    format!("airlock.padding.output.{name}")
}

fn buckets_key(length: &str) -> String {
    if length == PaddingConfig::DEFAULT_LENGTH {
        return "airlock.padding.buckets".to_owned();
    }
    format!("airlock.padding.buckets.{length}")
}

struct Resolver<'a> {
    config: &'a PaddingConfig,
    /// By name, with each one's position.
    lengths: BTreeMap<Arc<str>, (usize, Length)>,
    free: Vec<(usize, usize)>,
    errors: Vec<PaddingError>,
}

impl<'a> Resolver<'a> {
    fn new(config: &'a PaddingConfig) -> Self {
        let names: BTreeMap<_, _> = config.inputs.values().map(|input| (Arc::clone(&input.length), ())).collect();
        let length = |(position, name): (usize, Arc<str>)| {
            let buckets = config.buckets.get(&name).cloned().unwrap_or_default();
            (name, (position, Length { buckets, inputs: Vec::new() }))
        };
        let lengths = names.into_keys().enumerate().map(length).collect();
        Self { config, lengths, free: Vec::new(), errors: Vec::new() }
    }

    fn refuse(&mut self, parameter: String, fault: PaddingFault) {
        self.errors.push(PaddingError { parameter, fault });
    }

    /// Names that the model does not have, and buckets of lengths that nothing has.
    fn check_names(&mut self, model: &Signature) {
        let PaddingConfig { inputs, filled, outputs, buckets } = self.config;
        for name in inputs.keys() {
            self.check_name(input_key(name), name, ("input", &model.inputs));
        }
        for (name, FilledInput { kind, .. }) in filled {
            self.check_name(filled_key(name, *kind), name, ("input", &model.inputs));
            if inputs.contains_key(name) {
                self.refuse(filled_key(name, *kind), PaddingFault::TwoRoles { name: Arc::clone(name) });
            }
        }
        for name in outputs.keys() {
            self.check_name(output_key(name), name, ("output", &model.outputs));
        }
        for length in buckets.keys() {
            let _ = self.length(length, buckets_key(length));
        }
    }

    fn check_name(&mut self, parameter: String, name: &Arc<str>, (side, specs): (&'static str, &[TensorSpec])) {
        if !specs.iter().any(|spec| spec.name == *name) {
            let known = specs.iter().map(|spec| format!("'{}'", spec.name)).collect();
            self.refuse(parameter, PaddingFault::UnknownTensor { side, name: Arc::clone(name), known });
        }
    }

    /// The position of a length.
    fn length(&mut self, name: &Arc<str>, parameter: String) -> Option<usize> {
        if let Some((position, _)) = self.lengths.get(name) {
            return Some(*position);
        }
        let known = self.lengths.keys().map(ToString::to_string).collect();
        self.refuse(parameter, PaddingFault::UnknownLength { length: Arc::clone(name), known });
        None
    }

    /// Where an input of the model comes from; what comes from the request is added to `served`.
    fn input(&mut self, spec: &TensorSpec, served: &mut Vec<TensorSpec>) -> Option<BatchInput> {
        let padded = self.config.inputs.get(&spec.name);
        if let (None, Some(filled)) = (padded, self.config.filled.get(&spec.name)) {
            return self.filled(spec, filled);
        }
        let position = served.len();
        served.push(spec.clone());
        if let Some(padded) = padded {
            return self.padded(spec, padded, position);
        }
        self.free.extend(free_axes(spec).into_iter().map(|axis| (position, axis)));
        Some(BatchInput::Sent(position))
    }

    fn padded(&mut self, spec: &TensorSpec, padded: &PaddedInput, position: usize) -> Option<BatchInput> {
        let (parameter, data_type) = (input_key(&spec.name), spec.data_type);
        let fill = match &padded.value {
            None => Some(Fill::zero(data_type)),
            Some(value) => Fill::parse(data_type, value),
        };
        if let (None, Some(value)) = (&fill, &padded.value) {
            let (name, value) = (Arc::clone(&spec.name), value.clone());
            self.refuse(parameter.clone(), PaddingFault::Value { name, value, data_type });
        }
        let axis = input_axis(spec, padded.axis).map_err(|fault| self.refuse(parameter, fault)).ok()?;
        let (length, Length { inputs, .. }) = self.lengths.get_mut(&padded.length)?;
        inputs.push((position, axis));
        Some(BatchInput::Padded { input: position, axis: PaddedAxis { length: *length, axis }, fill: fill? })
    }

    fn filled(&mut self, spec: &TensorSpec, filled: &FilledInput) -> Option<BatchInput> {
        let parameter = filled_key(&spec.name, filled.kind);
        let length = self.length(&filled.length, parameter.clone())?;
        let (name, data_type, shape) = (Arc::clone(&spec.name), spec.data_type, spec.shape.clone());
        let (free, rank) = (free_axes(spec), spec.shape.len());
        let is_single = shape.first() == Some(&-1) && shape.iter().skip(1).all(|&dim| dim == 1 || dim == -1);
        match (filled.kind, &free[..]) {
            (FilledKind::Mask, &[axis]) if is_single && data_type.element_size().is_some() => {
                let one = if data_type == DataType::Bool { "true" } else { "1" };
                let (real, padding) = (Fill::parse(data_type, one)?, Fill::zero(data_type));
                Some(BatchInput::Mask { axis: PaddedAxis { length, axis }, rank, real, padding })
            }
            (FilledKind::Lengths, []) if is_single && CountType::new(data_type).is_some() => {
                Some(BatchInput::Lengths { length, rank, counts: CountType::new(data_type)? })
            }
            (FilledKind::Mask, _) => {
                self.refuse(parameter, PaddingFault::Mask { name, data_type, shape });
                None
            }
            (FilledKind::Lengths, _) => {
                self.refuse(parameter, PaddingFault::Lengths { name, data_type, shape });
                None
            }
        }
    }

    fn output(&mut self, spec: &TensorSpec) -> Option<PaddedAxis> {
        let cut = self.config.outputs.get(&spec.name)?;
        let parameter = output_key(&spec.name);
        let length = self.length(&cut.length, parameter.clone())?;
        let axis = axis_of(spec, "output", cut.axis).map_err(|fault| self.refuse(parameter, fault)).ok()?;
        Some(PaddedAxis { length, axis })
    }
}

/// Free dimensions but the batch's.
fn free_axes(spec: &TensorSpec) -> Vec<usize> {
    let axes = spec.shape.iter().enumerate().skip(1);
    axes.filter(|(_, dim)| **dim == -1).map(|(axis, _)| axis).collect()
}

/// The axis meant: the one named, or the only free one.
fn axis_of(spec: &TensorSpec, side: &'static str, named: Option<usize>) -> Result<usize, PaddingFault> {
    let (name, shape, free) = (Arc::clone(&spec.name), spec.shape.clone(), free_axes(spec));
    match (named, &free[..]) {
        (Some(axis), _) if free.contains(&axis) => Ok(axis),
        (Some(axis), _) => Err(PaddingFault::Axis { side, name, axis, shape, free }),
        (None, &[axis]) => Ok(axis),
        (None, _) => Err(PaddingFault::FreeDimensions { side, name, shape, free }),
    }
}

/// Of an input, every other dimension is fixed, so that what a request makes the server write is bounded by what it sent.
fn input_axis(spec: &TensorSpec, named: Option<usize>) -> Result<usize, PaddingFault> {
    const SIDE: &str = "input";
    let axis = axis_of(spec, SIDE, named)?;
    let free = free_axes(spec);
    if free.len() == 1 && !spec.shape.contains(&0) {
        return Ok(axis);
    }
    Err(PaddingFault::FreeDimensions { side: SIDE, name: Arc::clone(&spec.name), shape: spec.shape.clone(), free })
}
