//! An executor on CPU. All instances of a version share one session; each owns its slot and the lists of a run. A batch
//! runs to its end on the thread that submits it. What comes out is checked against the signature before anyone sees it:
//! a graph whose outputs are not what it declares must not hand one request the rows of another.

use std::sync::Arc;

use bytes::Bytes;
use model::{
    BatchLayout, BatchOutput, Completion, DataType, EngineError, ModelInstance, Signature, Slot, Tensor, TensorSpec,
    display_shape, element_count,
};

use crate::raw::{CpuSession, RunLists, Value};
use crate::reshape::Reshape;
use crate::slot::InputSlot;

/// A loaded version, shared by its instances.
pub(crate) struct LoadedVersion {
    pub(crate) session: CpuSession,
    pub(crate) signature: Signature,
    pub(crate) input_reshapes: Vec<Option<Reshape>>,
    pub(crate) output_reshapes: Vec<Option<Reshape>>,
    /// By output: whether it has a row for each row of the batch.
    pub(crate) outputs_have_rows: Vec<bool>,
}

/// One executor of a [`LoadedVersion`].
pub(crate) struct CpuInstance {
    version: Arc<LoadedVersion>,
    slot: InputSlot,
    /// Rows of the prepared batch; `None` where the model does not batch.
    rows: Option<u64>,
    lists: RunLists,
    outputs: Vec<Value>,
}

impl CpuInstance {
    pub(crate) fn new(version: Arc<LoadedVersion>) -> Self {
        let types = version.signature.inputs.iter().map(|spec| spec.data_type);
        let slot = InputSlot::new(types, &version.input_reshapes);
        Self { version, slot, rows: None, lists: RunLists::default(), outputs: Vec::new() }
    }

    /// Runs the batch in the slot.
    pub(crate) fn run(&mut self) -> Result<BatchOutput, EngineError> {
        self.slot.check_complete()?;
        self.outputs.clear();
        let ran = self.version.session.run(self.slot.values(), &mut self.lists, &mut self.outputs);
        let output = ran.map_err(EngineError::Run).and_then(|()| self.collect());
        self.outputs.clear();
        self.slot.finish();
        output
    }

    fn collect(&mut self) -> Result<BatchOutput, EngineError> {
        let Self { version, slot, rows, outputs, .. } = self;
        let has_rows = version.outputs_have_rows.iter().zip(&version.output_reshapes);
        let specs = version.signature.outputs.iter().zip(has_rows);
        let tensors = outputs.drain(..).zip(specs).map(|(value, (spec, (has_rows, reshape)))| {
            let (data_type, mut shape) = value.type_and_shape().map_err(EngineError::Run)?;
            // What does not fit stays as it is, and the check below names it.
            if let Some(served) = reshape.as_ref().and_then(|reshape| reshape.to_served(&shape)) {
                shape = served;
            }
            check_output(spec, rows.filter(|_| *has_rows), data_type, &shape)?;
            let data = data_of(value, spec.data_type, &shape, &version.session, slot).map_err(EngineError::Run)?;
            Tensor::new(Arc::clone(&spec.name), spec.data_type, shape, data)
                .map_err(|error| EngineError::Run(error.to_string()))
        });
        Ok(BatchOutput { tensors: tensors.collect::<Result<_, _>>()? })
    }
}

impl ModelInstance for CpuInstance {
    fn prepare(&mut self, layout: &BatchLayout) -> Result<&mut dyn Slot, EngineError> {
        self.slot.prepare(&self.version.session, layout)?;
        self.rows = layout.rows;
        Ok(&mut self.slot)
    }

    fn submit(&mut self, done: Completion) {
        let output = self.run();
        done(output);
    }
}

/// Compares an output with the signature, and its rows with those of the batch.
fn check_output(
    spec: &TensorSpec,
    rows: Option<u64>,
    data_type: Option<DataType>,
    shape: &[u64],
) -> Result<(), EngineError> {
    let fits = |(&expected, &got): (&i64, &u64)| expected == -1 || u64::try_from(expected) == Ok(got);
    let rows_fit = rows.is_none_or(|rows| shape.first() == Some(&rows));
    let shape_fits = shape.len() == spec.shape.len() && spec.shape.iter().zip(shape).all(fits);
    if data_type == Some(spec.data_type) && rows_fit && shape_fits {
        return Ok(());
    }
    let rows_text = rows.map_or(String::new(), |rows| format!(" with {rows} rows"));
    Err(EngineError::Output {
        output: spec.name.to_string(),
        expected: format!("{} {}{rows_text}", spec.data_type, display_shape(&spec.shape)),
        got: format!("{} {}", data_type.map_or("of an unknown type", DataType::v2_name), display_shape(shape)),
    })
}

fn data_of(
    value: Value,
    data_type: DataType,
    shape: &[u64],
    session: &CpuSession,
    slot: &InputSlot,
) -> Result<Bytes, String> {
    if data_type == DataType::Bytes {
        let count = element_count(shape).and_then(|count| usize::try_from(count).ok());
        return value.encoded_strings(count.ok_or("an output has too many elements")?).map(Bytes::from);
    }
    // A graph may hand an input through as an output; the slot is written again before the answer is gone.
    let in_slot = slot.holds(value.address()?);
    let view = session.view(value)?;
    Ok(if in_slot { Bytes::copy_from_slice(&view) } else { view })
}
