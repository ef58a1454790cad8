//! A fake engine behind the seam, with the arithmetic of a real one: `y = x + 1` over unsigned bytes. It records what it
//! ran, can hold batches back until a test releases them, and can fail on request.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use bytes::Bytes;

use crate::{
    BatchLayout, BatchOutput, Completion, DataType, EngineError, InstanceFactory, LoadError, LoadRequest, LoadedModel,
    ModelInstance, ModelLoader, Signature, Slot, Tensor, TensorSpec,
};

/// How a fake instance behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FakeMode {
    /// Completes inside `submit`, as on CPU.
    Inline,
    /// Completes when the test calls [`FakeControl::release`], as a device would.
    Held,
    /// Every batch fails.
    Failing,
}

/// What a test sees of its fake instances.
#[derive(Clone, Debug, Default)]
pub struct FakeControl {
    state: Arc<Mutex<ControlState>>,
}

#[derive(Debug, Default)]
struct ControlState {
    batches: Vec<Vec<u64>>,
    held: Vec<Sender<()>>,
    loads: usize,
    instances: usize,
}

impl FakeControl {
    /// The first input's shape of every batch run so far.
    #[must_use]
    pub fn batches(&self) -> Vec<Vec<u64>> {
        self.lock().batches.clone()
    }

    /// How often the loader loaded.
    #[must_use]
    pub fn loads(&self) -> usize {
        self.lock().loads
    }

    /// How many instances loaders and their factories have made.
    #[must_use]
    pub fn instances(&self) -> usize {
        self.lock().instances
    }

    /// Batches that can be released.
    #[must_use]
    pub fn held(&self) -> usize {
        self.lock().held.len()
    }

    /// Lets the oldest held batch complete; false when none is held.
    #[must_use]
    pub fn release(&self) -> bool {
        let mut state = self.lock();
        if state.held.is_empty() {
            return false;
        }
        state.held.remove(0).send(()).is_ok()
    }

    /// Lets the newest held batch complete, before those that came earlier; false when none is held.
    #[must_use]
    pub fn release_newest(&self) -> bool {
        self.lock().held.pop().is_some_and(|release| release.send(()).is_ok())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, ControlState> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// One input `x` and one output `y`, both UINT8 of shape [-1, -1].
#[must_use]
pub fn fake_signature() -> Signature {
    let spec = |name: &str| TensorSpec { name: name.into(), data_type: DataType::Uint8, shape: vec![-1, -1] };
    Signature { inputs: vec![spec("x")], outputs: vec![spec("y")], ..Signature::default() }
}

/// A request's input for [`fake_signature`]: `rows` rows of `width` bytes `value`.
#[must_use]
pub fn fake_input(rows: u64, width: u64, value: u8) -> Tensor {
    let len = usize::try_from(rows * width).unwrap_or(0);
    Tensor::new("x".into(), DataType::Uint8, vec![rows, width], Bytes::from(vec![value; len]))
        .expect("length follows from the shape")
}

/// An instance of the fake engine.
pub struct FakeInstance {
    mode: FakeMode,
    control: FakeControl,
    shape: Vec<u64>,
    slot: FakeSlot,
}

struct FakeSlot {
    data: Vec<u8>,
    capacity: usize,
}

impl FakeInstance {
    /// An instance that reports to `control`.
    #[must_use]
    pub fn new(mode: FakeMode, control: FakeControl) -> Self {
        Self { mode, control, shape: Vec::new(), slot: FakeSlot { data: Vec::new(), capacity: 0 } }
    }
}

impl Slot for FakeSlot {
    fn append(&mut self, input: usize, rows: &[u8]) {
        assert_eq!(input, 0, "the fake has one input");
        self.data.extend_from_slice(rows);
        assert!(self.data.len() <= self.capacity, "more rows than the layout has room for");
    }
}

impl ModelInstance for FakeInstance {
    fn prepare(&mut self, layout: &BatchLayout) -> Result<&mut dyn Slot, EngineError> {
        self.shape.clone_from(&layout.shapes[0]);
        let capacity = usize::try_from(self.shape.iter().product::<u64>()).unwrap_or(usize::MAX);
        self.slot = FakeSlot { data: Vec::with_capacity(capacity), capacity };
        Ok(&mut self.slot)
    }

    fn submit(&mut self, done: Completion) {
        let data = std::mem::take(&mut self.slot.data);
        assert_eq!(data.len(), self.slot.capacity, "every row of the layout is written before submit");
        self.control.lock().batches.push(self.shape.clone());
        let output: Vec<u8> = data.iter().map(|x| x.wrapping_add(1)).collect();
        let result = Tensor::new("y".into(), DataType::Uint8, self.shape.clone(), Bytes::from(output))
            .map(|y| BatchOutput { tensors: vec![y] })
            .map_err(|error| EngineError::Run(error.to_string()));
        match self.mode {
            FakeMode::Inline => done(result),
            FakeMode::Failing => done(Err(EngineError::Run("the fake was told to fail".to_owned()))),
            FakeMode::Held => {
                let (release, released): (Sender<()>, Receiver<()>) = channel();
                self.control.lock().held.push(release);
                std::thread::spawn(move || {
                    let _ = released.recv();
                    done(result);
                });
            }
        }
    }

    fn capacity(&self) -> NonZeroUsize {
        if self.mode == FakeMode::Held { NonZeroUsize::MIN.saturating_add(1) } else { NonZeroUsize::MIN }
    }

    fn completes_inline(&self) -> bool {
        self.mode != FakeMode::Held
    }
}

/// Loads fake instances and counts how often it did.
pub struct FakeLoader {
    mode: FakeMode,
    control: FakeControl,
}

impl FakeLoader {
    /// A loader whose instances behave as `mode` and report to `control`.
    #[must_use]
    pub fn new(mode: FakeMode, control: FakeControl) -> Self {
        Self { mode, control }
    }
}

impl ModelLoader for FakeLoader {
    /// A file that starts with `bad` does not load.
    fn load(&self, request: &LoadRequest<'_>) -> Result<LoadedModel, LoadError> {
        let failure = |message: String| LoadError::File { path: request.path.to_path_buf(), message };
        let content = std::fs::read(request.path).map_err(|error| failure(error.to_string()))?;
        if content.starts_with(b"bad") {
            return Err(failure("the fake was told to refuse it".to_owned()));
        }
        self.control.lock().loads += 1;
        let factory = FakeFactory { mode: self.mode, control: self.control.clone() };
        let instances = (0..request.config.instance_count().get()).map(|_| factory.make()).collect::<Result<_, _>>()?;
        Ok(LoadedModel {
            config: request.config.clone(),
            signature: fake_signature(),
            assembly: None,
            instances,
            factory: Arc::new(factory),
            labels: BTreeMap::new(),
            provider: "FakeExecutionProvider",
        })
    }
}

/// Makes fake instances that behave as those of its loader.
struct FakeFactory {
    mode: FakeMode,
    control: FakeControl,
}

impl InstanceFactory for FakeFactory {
    fn make(&self) -> Result<Box<dyn ModelInstance>, LoadError> {
        self.control.lock().instances += 1;
        Ok(Box::new(FakeInstance::new(self.mode, self.control.clone())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{InstanceGroup, ModelConfig, ModelName, VersionNumber};

    #[test]
    fn the_fake_loader_makes_as_many_instances_as_asked_and_its_factory_further_ones() {
        let control = FakeControl::default();
        let three = InstanceGroup { count: NonZeroUsize::MIN.saturating_add(2), ..InstanceGroup::named("g") };
        let config =
            ModelConfig { instance_groups: vec![three], ..ModelConfig::named(ModelName::new("m").expect("a name")) };
        let version = VersionNumber::new(1).expect("a version");
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let loader = FakeLoader::new(FakeMode::Inline, control.clone());
        let loaded = loader.load(&LoadRequest { config: &config, version, path: &path }).expect("loads");
        assert_eq!((loaded.instances.len(), control.instances(), control.loads()), (3, 3, 1));
        assert!(loaded.factory.make().is_ok());
        assert_eq!((control.instances(), control.loads()), (4, 1), "nothing is loaded again");
    }
}
