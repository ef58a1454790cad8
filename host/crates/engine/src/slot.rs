//! The memory of the batch that an instance is filling: one tensor per input, kept from batch to batch and remade only
//! when the shape changes. Numbers are written once into aligned memory that ONNX Runtime reads in place; strings are
//! written once into ONNX Runtime's own string tensor.

use model::{BatchLayout, BytesElements, DataType, EngineError, Slot, element_count};

use crate::raw::{CpuSession, NumericTensor, PrepareError, StringTensor, Value};
use crate::reshape::Reshape;

/// String bytes above which a string tensor is not kept for the next batch.
const RETAINED_STRING_BYTES_MAX: usize = 1 << 20;

/// The inputs of one batch.
pub(crate) struct InputSlot {
    inputs: Vec<Input>,
}

struct Input {
    reshape: Option<Reshape>,
    /// Whether the batch leaves it out.
    is_absent: bool,
    shape: Vec<i64>,
    memory: InputMemory,
}

enum InputMemory {
    Numbers { tensor: NumericTensor, element_size: usize, written: usize },
    Strings(StringInput),
}

#[derive(Default)]
struct StringInput {
    tensor: Option<StringTensor>,
    shape: Vec<i64>,
    count: usize,
    written: usize,
    bytes: usize,
    failure: Option<String>,
}

impl InputSlot {
    /// A slot for inputs of these types; `reshapes` says which of them the model takes with other dimensions.
    pub(crate) fn new(data_types: impl Iterator<Item = DataType>, reshapes: &[Option<Reshape>]) -> Self {
        let inputs = data_types.zip(reshapes).map(|(data_type, reshape)| Input {
            reshape: reshape.clone(),
            is_absent: false,
            shape: Vec::new(),
            memory: match data_type.element_size() {
                Some(element_size) => {
                    InputMemory::Numbers { tensor: NumericTensor::new(data_type), element_size, written: 0 }
                }
                None => InputMemory::Strings(StringInput::default()),
            },
        });
        Self { inputs: inputs.collect() }
    }

    /// Makes room for the inputs of this layout, and forgets what was written.
    ///
    /// # Errors
    /// [`EngineError::Memory`] when there is not enough, [`EngineError::Run`] for shapes no tensor can have.
    pub(crate) fn prepare(&mut self, session: &CpuSession, layout: &BatchLayout) -> Result<(), EngineError> {
        let (got, expected) = (layout.shapes.len(), self.inputs.len());
        if got != expected {
            return Err(EngineError::Run(format!("the batch has {got} inputs, the model {expected}")));
        }
        for (position, (input, shape)) in self.inputs.iter_mut().zip(&layout.shapes).enumerate() {
            input.is_absent = layout.absent.contains(&position);
            if !input.is_absent {
                input.prepare(session, shape)?;
            }
        }
        Ok(())
    }

    /// The tensors, complete and ready to run.
    ///
    /// # Errors
    /// [`EngineError::Run`] when fewer rows were written than the layout has room for, or could not be stored.
    pub(crate) fn check_complete(&self) -> Result<(), EngineError> {
        for (i, input) in self.inputs.iter().enumerate().filter(|(_, input)| !input.is_absent) {
            let (written, expected) = match &input.memory {
                InputMemory::Numbers { tensor, written, .. } => (*written, tensor.len()),
                InputMemory::Strings(strings) => {
                    if let Some(failure) = &strings.failure {
                        return Err(EngineError::Run(format!("storing strings of input {i}: {failure}")));
                    }
                    (strings.written, strings.count)
                }
            };
            if written != expected {
                debug_assert!(false, "every row of the layout is written before submit");
                return Err(EngineError::Run(format!("input {i} of the batch is incomplete: {written} of {expected}")));
            }
        }
        Ok(())
    }

    /// By input: its tensor; `None` for what the batch leaves out.
    pub(crate) fn values(&self) -> impl Iterator<Item = Option<&Value>> {
        self.inputs.iter().map(|input| match &input.memory {
            _ if input.is_absent => None,
            InputMemory::Numbers { tensor, .. } => tensor.value(),
            InputMemory::Strings(strings) => strings.tensor.as_ref().map(StringTensor::value),
        })
    }

    /// Whether an address lies in the slot's own memory.
    pub(crate) fn holds(&self, address: usize) -> bool {
        self.inputs
            .iter()
            .any(|input| matches!(&input.memory, InputMemory::Numbers { tensor, .. } if tensor.holds(address)))
    }

    /// Gives back what was only large for this batch.
    pub(crate) fn finish(&mut self) {
        for input in &mut self.inputs {
            if let InputMemory::Strings(strings) = &mut input.memory
                && strings.bytes > RETAINED_STRING_BYTES_MAX
            {
                strings.tensor = None;
            }
        }
    }
}

impl Slot for InputSlot {
    fn append(&mut self, input: usize, rows: &[u8]) {
        match &mut self.inputs[input].memory {
            InputMemory::Numbers { tensor, written, .. } => {
                tensor.write(*written, rows);
                *written += rows.len();
            }
            InputMemory::Strings(strings) => strings.append(rows),
        }
    }
}

impl Input {
    fn prepare(&mut self, session: &CpuSession, shape: &[u64]) -> Result<(), EngineError> {
        let unusable = || EngineError::Run(format!("a batch cannot have an input of shape {shape:?}"));
        let count = element_count(shape).and_then(|count| usize::try_from(count).ok()).ok_or_else(unusable)?;
        self.shape.clear();
        let reshaped = self.reshape.as_ref().map(|reshape| reshape.to_model(shape).ok_or_else(unusable)).transpose()?;
        for &dim in reshaped.as_deref().unwrap_or(shape) {
            self.shape.push(i64::try_from(dim).map_err(|_| unusable())?);
        }
        match &mut self.memory {
            InputMemory::Numbers { tensor, element_size, written } => {
                let len = count.checked_mul(*element_size).ok_or_else(unusable)?;
                *written = 0;
                tensor.prepare(session, &self.shape, len).map_err(|error| match error {
                    PrepareError::Memory(bytes) => EngineError::Memory { bytes: bytes as u64 },
                    PrepareError::Refused(message) => EngineError::Run(message),
                })
            }
            InputMemory::Strings(strings) => strings.prepare(&self.shape, count).map_err(EngineError::Run),
        }
    }
}

impl StringInput {
    fn prepare(&mut self, shape: &[i64], count: usize) -> Result<(), String> {
        if self.tensor.is_none() || self.shape != shape {
            self.tensor = None;
            self.tensor = Some(StringTensor::new(shape)?);
            self.shape.clear();
            self.shape.extend_from_slice(shape);
        }
        self.count = count;
        self.written = 0;
        self.bytes = 0;
        self.failure = None;
        Ok(())
    }

    fn append(&mut self, rows: &[u8]) {
        self.bytes += rows.len();
        let Some(tensor) = &mut self.tensor else { panic!("rows are appended after prepare") };
        for element in BytesElements::new(rows) {
            assert!(self.written < self.count, "more rows than the layout has room for");
            if let Err(failure) = tensor.set(self.written, element) {
                self.failure = Some(failure);
            }
            self.written += 1;
        }
    }
}
