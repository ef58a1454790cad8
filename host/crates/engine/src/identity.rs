//! The identity backend, as Triton's tests know it: each output is the input of its number, after a delay. A model of it
//! needs no file; it makes scheduling visible without any work in between.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use model::{
    Assembly, BatchLayout, BatchOutput, Completion, EngineError, InstanceFactory, LoadError, LoadRequest, LoadedModel,
    ModelConfig, ModelInstance, ModelLoader, Signature, Slot, Tensor, TensorConfig, TensorSpec,
};

use crate::served::served;
use crate::warmup;

/// What its versions say runs them.
pub const IDENTITY_PROVIDER: &str = "identity";

/// Longest delay of a batch.
const DELAY_MAX: Duration = Duration::from_secs(3_600);

/// Loads models of the identity backend. These `parameters` are obeyed: `execute_delay_ms`, how long each batch takes, and
/// `instance_wise_delay_multiplier`, by which instance `n` is slower, `n` times.
#[derive(Clone, Copy, Debug, Default)]
pub struct IdentityLoader;

impl ModelLoader for IdentityLoader {
    fn load(&self, request: &LoadRequest<'_>) -> Result<LoadedModel, LoadError> {
        let config = request.config;
        let pairs = pairs(config)?;
        let batch = (config.max_batch_size > 0).then_some(-1);
        let signature = Signature {
            inputs: config.inputs.iter().map(|tensor| spec(tensor, batch)).collect(),
            outputs: config.outputs.iter().map(|tensor| spec(tensor, batch)).collect(),
            optional_inputs: 0,
        };
        let pace = Pace::of(config)?;
        let model = Arc::new(Identity { signature: signature.clone(), pairs });
        let (signature, assembly) = served(config, &signature)?;
        let factory = IdentityInstances {
            model,
            config: config.clone(),
            served: signature.clone(),
            assembly: assembly.clone(),
            pace,
            made: AtomicUsize::new(0),
        };
        let instances = (0..config.instance_count().get()).map(|_| factory.make()).collect::<Result<_, _>>()?;
        Ok(LoadedModel {
            config: config.clone(),
            signature,
            assembly,
            instances,
            factory: Arc::new(factory),
            labels: BTreeMap::new(),
            provider: IDENTITY_PROVIDER,
        })
    }
}

/// Makes instances, each slower than the one before where the multiplier says so.
struct IdentityInstances {
    model: Arc<Identity>,
    config: ModelConfig,
    /// What requests, warm-up's too, are checked against.
    served: Signature,
    assembly: Option<Assembly>,
    pace: Pace,
    made: AtomicUsize,
}

impl IdentityInstances {
    fn next(&self) -> IdentityInstance {
        let delay = self.pace.of_instance(self.made.fetch_add(1, Ordering::Relaxed));
        IdentityInstance::new(Arc::clone(&self.model), delay)
    }
}

impl InstanceFactory for IdentityInstances {
    fn make(&self) -> Result<Box<dyn ModelInstance>, LoadError> {
        let mut instance = self.next();
        let warmups = warmup::prepare(&self.config, &self.served, self.assembly.as_ref())?;
        warmups.iter().try_for_each(|warmup| warmup.run(&mut instance))?;
        Ok(Box::new(instance))
    }
}

/// A loaded model.
#[derive(Debug)]
struct Identity {
    signature: Signature,
    /// By output, the input that it is.
    pairs: Vec<usize>,
}

fn spec(tensor: &TensorConfig, batch: Option<i64>) -> TensorSpec {
    let shape = batch.into_iter().chain(tensor.dims.iter().copied()).collect();
    TensorSpec { name: Arc::clone(&tensor.name), data_type: tensor.data_type, shape }
}

/// By output, the input that it is: `OUTPUT7` is `INPUT7`; outputs of other names are the inputs of their places.
fn pairs(config: &ModelConfig) -> Result<Vec<usize>, LoadError> {
    let (inputs, outputs) = (&config.inputs, &config.outputs);
    let mut problems = Vec::new();
    if inputs.is_empty() || inputs.len() != outputs.len() {
        problems.push(format!(
            "model '{}' of the identity backend declares {} inputs and {} outputs; it must declare as many of the one as of \
             the other, and at least one",
            config.name,
            inputs.len(),
            outputs.len()
        ));
        return Err(LoadError::Mismatch { problems, file: None });
    }
    if !config.ragged.is_empty() || !config.optional_inputs.is_empty() {
        problems.push(format!(
            "model '{}' of the identity backend has ragged or optional inputs, which only models with a file have; leave \
             allow_ragged_batch, batch_input, batch_output and optional out",
            config.name
        ));
    }
    let mut pairs = Vec::new();
    for (place, output) in outputs.iter().enumerate() {
        let namesake = output.name.strip_prefix("OUTPUT").map(|number| format!("INPUT{number}"));
        let input = namesake.and_then(|name| inputs.iter().position(|input| *input.name == *name)).unwrap_or(place);
        let source = &inputs[input];
        if source.data_type != output.data_type || source.dims != output.dims {
            problems.push(format!(
                "model '{}': output '{}' of the identity backend must have the type and dims of input '{}'",
                config.name, output.name, source.name
            ));
        }
        pairs.push(input);
    }
    if problems.is_empty() { Ok(pairs) } else { Err(LoadError::Mismatch { problems, file: None }) }
}

/// How long batches take.
#[derive(Clone, Copy, Debug)]
struct Pace {
    delay: Duration,
    multiplier: u32,
}

impl Pace {
    fn of(config: &ModelConfig) -> Result<Self, LoadError> {
        let number = |key: &str| match config.parameters.get(key).map(|text| text.trim().parse::<u32>()) {
            None => Ok(0),
            Some(Ok(number)) => Ok(number),
            Some(Err(_)) => {
                let text = format!("model '{}', parameter '{key}' must be a whole number of at least 0", config.name);
                Err(LoadError::Mismatch { problems: vec![text], file: None })
            }
        };
        let delay = Duration::from_millis(number("execute_delay_ms")?.into());
        Ok(Self { delay, multiplier: number("instance_wise_delay_multiplier")? })
    }

    fn of_instance(self, index: usize) -> Duration {
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        self.delay.saturating_mul(self.multiplier.saturating_mul(index).max(1)).min(DELAY_MAX)
    }
}

struct IdentityInstance {
    model: Arc<Identity>,
    delay: Duration,
    batch: Batch,
}

/// The batch that is being written.
#[derive(Default)]
struct Batch {
    shapes: Vec<Vec<u64>>,
    rows: Vec<Vec<u8>>,
}

impl IdentityInstance {
    fn new(model: Arc<Identity>, delay: Duration) -> Self {
        Self { model, delay, batch: Batch::default() }
    }

    fn run(&mut self) -> Result<BatchOutput, EngineError> {
        let Batch { shapes, rows } = std::mem::take(&mut self.batch);
        let rows: Vec<Bytes> = rows.into_iter().map(Bytes::from).collect();
        let outputs = self.model.signature.outputs.iter().zip(&self.model.pairs);
        let tensors = outputs.map(|(output, &input)| {
            let (name, shape, data) = (Arc::clone(&output.name), shapes[input].clone(), rows[input].clone());
            Tensor::new(name, output.data_type, shape, data).map_err(|error| EngineError::Run(error.to_string()))
        });
        Ok(BatchOutput { tensors: tensors.collect::<Result<_, _>>()? })
    }
}

impl Slot for Batch {
    fn append(&mut self, input: usize, rows: &[u8]) {
        self.rows[input].extend_from_slice(rows);
    }
}

impl ModelInstance for IdentityInstance {
    fn prepare(&mut self, layout: &BatchLayout) -> Result<&mut dyn Slot, EngineError> {
        self.batch.shapes.clone_from(&layout.shapes);
        self.batch.rows = vec![Vec::new(); layout.shapes.len()];
        Ok(&mut self.batch)
    }

    fn submit(&mut self, done: Completion) {
        let output = self.run();
        if !self.delay.is_zero() {
            #[expect(clippy::disallowed_methods, reason = "the delay is what the model does")]
            std::thread::sleep(self.delay);
        }
        done(output);
    }

    fn capacity(&self) -> NonZeroUsize {
        NonZeroUsize::MIN
    }

    /// A delay is for the instance's own thread.
    fn completes_inline(&self) -> bool {
        self.delay.is_zero()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::mpsc::channel;

    use model::{DataType, ModelName, VersionNumber, WarmupData, WarmupInput, WarmupSample};

    use super::*;

    fn tensor(name: &str, data_type: DataType, dims: &[i64]) -> TensorConfig {
        TensorConfig { name: name.into(), data_type, dims: dims.to_vec(), reshape: None }
    }

    fn config(inputs: &[&str], outputs: &[&str]) -> ModelConfig {
        let mut config = ModelConfig::named(ModelName::new("m").expect("a name"));
        config.inputs = inputs.iter().map(|name| tensor(name, DataType::Uint8, &[-1])).collect();
        config.outputs = outputs.iter().map(|name| tensor(name, DataType::Uint8, &[-1])).collect();
        config
    }

    fn load(config: &ModelConfig) -> Result<LoadedModel, LoadError> {
        let version = VersionNumber::new(1).expect("not 0");
        IdentityLoader.load(&LoadRequest { config, version, path: Path::new("nowhere") })
    }

    #[test]
    fn outputs_are_the_inputs_of_their_numbers() {
        let config = config(&["INPUT0", "INPUT1"], &["OUTPUT1", "OUTPUT0"]);
        let mut loaded = load(&config).expect("loads without a file");
        let layout = BatchLayout { shapes: vec![vec![2], vec![0]], ..BatchLayout::default() };
        let slot = loaded.instances[0].prepare(&layout).expect("memory");
        slot.append(0, b"ab");
        slot.append(1, b"");
        let (sender, receiver) = channel();
        loaded.instances[0].submit(Box::new(move |outcome| sender.send(outcome).expect("somebody waits")));
        let tensors = receiver.recv().expect("done").expect("runs").tensors;
        let shown: Vec<_> =
            tensors.iter().map(|tensor| (&**tensor.name(), tensor.shape(), &tensor.data()[..])).collect();
        assert_eq!(shown, [("OUTPUT1", &[0][..], &b""[..]), ("OUTPUT0", &[2], b"ab")]);
    }

    #[test]
    fn warm_up_requests_are_held_to_the_signature() {
        let sample = |name: &str| WarmupSample {
            name: "first".into(),
            batch_size: 1,
            count: 2,
            inputs: vec![WarmupInput {
                name: name.into(),
                data_type: DataType::Uint8,
                dims: vec![3],
                data: WarmupData::Zero,
            }],
        };
        let with = |name: &str| ModelConfig { warmup: vec![sample(name)], ..config(&["a"], &["b"]) };
        load(&with("a")).expect("warms up");
        let error = load(&with("z")).err().expect("refused").to_string();
        assert!(error.starts_with("failed to run warmup sample 'first': "), "{error}");
    }

    #[test]
    fn what_cannot_be_an_identity_is_refused() {
        let mut other_type = config(&["a"], &["b"]);
        other_type.outputs[0].data_type = DataType::Fp32;
        let mut optional = config(&["a"], &["b"]);
        optional.optional_inputs.insert("a".into());
        let mut slow = config(&["a"], &["b"]);
        slow.parameters.insert("execute_delay_ms".to_owned(), "long".to_owned());
        for (config, expected) in [
            (optional, "has ragged or optional inputs"),
            (config(&[], &[]), "declares 0 inputs and 0 outputs"),
            (config(&["a", "b"], &["c"]), "declares 2 inputs and 1 outputs"),
            (other_type, "output 'b' of the identity backend must have the type and dims of input 'a'"),
            (slow, "parameter 'execute_delay_ms' must be a whole number of at least 0"),
        ] {
            let error = load(&config).err().expect("refused").to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn later_instances_are_slower_by_the_multiplier() {
        let pace = Pace { delay: Duration::from_millis(20), multiplier: 3 };
        let delays: Vec<_> = (0..3).map(|index| pace.of_instance(index).as_millis()).collect();
        assert_eq!(delays, [20, 60, 120]);
        assert_eq!(Pace { multiplier: 0, ..pace }.of_instance(7).as_millis(), 20);
        assert_eq!(Pace { delay: Duration::from_secs(4_000_000), multiplier: u32::MAX }.of_instance(9), DELAY_MAX);
    }
}
