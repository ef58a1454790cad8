//! The life of a request after its envelope is decoded: preprocess, check, batch, postprocess, all on one pinned
//! release. No transport and no route is known here; HTTP, gRPC and verification call the same functions.

use std::sync::Arc;
use std::time::Duration;

use batching::{BatchError, BatchTimes, InferenceRequest, Inferred};
use bytes::Bytes;
use model::{EngineError, ErrorCode, NonFinite, SignatureMismatch, Tensor};
use plugin::{Call, Inference, PluginFailure, Prepared, Response};
use tokio::time::Instant;

use crate::failure::RequestFailure;
use crate::generation::PluginGeneration;
use crate::metrics::{Stage, VersionMetrics};
use crate::non_finite::is_non_finite;
use crate::observed;
use crate::registry::{LoadedVersion, PluginSlot, Release};
use crate::response_cache::Lookup;

/// A business request.
#[derive(Clone, Debug)]
pub struct PredictRequest {
    /// The client's id, or one made for it.
    pub request_id: String,
    /// `Content-Type`.
    pub content_type: Option<String>,
    /// `Accept`.
    pub accept: Option<String>,
    /// The body.
    pub body: Bytes,
    /// When the answer is worthless.
    pub deadline: Instant,
}

/// How a request waits for its batch.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// When its answer is worthless.
    pub deadline: Instant,
    /// Its level of urgency, 1 the most urgent; 0 asks for the model's default.
    pub priority: u64,
    /// How long it may wait, where the model's queue lets requests say so.
    pub timeout: Option<Duration>,
}

impl Waiting {
    /// As urgent as the model's default, and as patient as its queue.
    #[must_use]
    pub fn until(deadline: Instant) -> Self {
        Self { deadline, priority: 0, timeout: None }
    }
}

/// Whether a run shows in the statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accounting {
    /// A client's request.
    Counted,
    /// A sample run for verification.
    Uncounted,
}

/// Times of the stages of one request, recorded only for clients' requests.
struct Stages<'a> {
    metrics: Option<&'a VersionMetrics>,
    started: Instant,
}

impl<'a> Stages<'a> {
    fn begin(metrics: &'a VersionMetrics, accounting: Accounting) -> Self {
        let metrics = (accounting == Accounting::Counted).then_some(metrics);
        Self { metrics, started: Instant::now() }
    }

    fn record(&self, stage: Stage, time: Duration) {
        if let Some(metrics) = self.metrics {
            metrics.stage(stage, time);
            observed::stage(stage, time);
        }
    }

    fn end(&mut self, failure: Option<ErrorCode>) {
        if let Some(metrics) = self.metrics.take() {
            metrics.stage(Stage::Total, self.started.elapsed());
            metrics.answered(failure);
        }
    }
}

impl Drop for Stages<'_> {
    /// Dropped before its end: the client left.
    fn drop(&mut self) {
        self.end(Some(ErrorCode::Cancelled));
    }
}

/// Answers a business request through the release's plugin.
///
/// # Errors
/// A [`RequestFailure`] with the reason a client may see.
pub async fn predict(release: &Release, request: PredictRequest) -> Result<Response, RequestFailure> {
    let version = &release.version;
    let failure = match &release.plugin {
        PluginSlot::Serving(generation) => {
            return predict_with(version, generation, request, Accounting::Counted).await;
        }
        PluginSlot::Absent => no_plugin(version),
        PluginSlot::Refused(reason) => plugin_refused(version, reason),
    };
    version.metrics.answered(Some(failure.code));
    Err(failure)
}

/// Answers a business request with this very pair of version and plugin generation, published or not.
///
/// # Errors
/// As [`predict`].
pub async fn predict_with(
    version: &LoadedVersion,
    generation: &PluginGeneration,
    request: PredictRequest,
    accounting: Accounting,
) -> Result<Response, RequestFailure> {
    let mut stages = Stages::begin(&version.metrics, accounting);
    let call = Arc::new(plugin_call(version, &request, accounting));
    let run = Run { version, generation, call, stages: &stages };
    let result = run.to_answer(request.body, request.deadline).await;
    stages.end(result.as_ref().err().map(|failure| failure.code));
    result
}

/// One request on its way through one pair of version and generation.
struct Run<'a> {
    version: &'a LoadedVersion,
    generation: &'a PluginGeneration,
    call: Arc<Call>,
    stages: &'a Stages<'a>,
}

impl Run<'_> {
    async fn to_answer(&self, body: Bytes, deadline: Instant) -> Result<Response, RequestFailure> {
        let Self { version, generation, call, stages } = self;
        let started = Instant::now();
        let prepared = generation.plugin.preprocess(call, body, deadline).await;
        let preprocess = started.elapsed();
        stages.record(Stage::Preprocess, preprocess);
        let inference = match prepared.map_err(|failure| self.plugin_failed(failure))? {
            Prepared::Respond(response) => return Ok(response),
            Prepared::Infer(inference) => inference,
        };

        let Inference { inputs, outputs: wanted, carry, .. } = inference;
        let broken = |mismatch: SignatureMismatch| self.contract_broken(&mismatch);
        let selection = version.signature.select_outputs(&wanted).map_err(broken)?;
        let (inputs, rows) = version.check_inputs(inputs).map_err(broken)?;
        let waiting = Waiting::until(deadline);
        let inferred = submit(version, (inputs, rows), waiting, stages).await.map_err(expired_is_504)?;

        let outputs = pick_outputs(&inferred.outputs, &selection);
        let started = Instant::now();
        let answer = generation.plugin.postprocess(call, outputs, carry, deadline).await;
        let postprocess = started.elapsed();
        stages.record(Stage::Postprocess, postprocess);
        if let Some(metrics) = stages.metrics {
            metrics.kserve(preprocess, inferred.queue + inferred.times.compute, postprocess);
        }
        answer.map_err(|failure| self.plugin_failed(failure))
    }

    fn plugin_failed(&self, failure: PluginFailure) -> RequestFailure {
        if failure.code().blames_plugin() {
            self.blame(failure.kind_label(), &failure.to_string());
        }
        failure.into()
    }

    fn contract_broken(&self, mismatch: &SignatureMismatch) -> RequestFailure {
        let mismatch = mismatch.text(self.version.model.as_str());
        let text = format!("the plugin's tensors do not fit the model: {mismatch}");
        self.blame("contract", &text);
        RequestFailure::new(ErrorCode::PluginContract, text)
    }

    /// One log line and one count per request that fails through its plugin; a sample's failure is its verdict's to tell.
    fn blame(&self, kind: &str, error: &str) {
        if self.stages.metrics.is_none() {
            return;
        }
        self.generation.count_failure(kind);
        let Self { version, generation, call, .. } = self;
        tracing::warn!(
            model = %version.model, version = %version.number, generation = generation.number,
            request_id = call.request_id, trace_id = call.trace_id, kind, error, "plugin failed"
        );
    }
}

/// Runs tensors through the model alone. Returns the outputs at `selection`, in its order.
///
/// # Errors
/// A [`RequestFailure`] from the queue or the engine, or for tensors that do not fit the signature.
pub async fn infer<N: AsRef<str>>(
    version: &LoadedVersion,
    inputs: Vec<Tensor>,
    output_names: &[N],
    waiting: Waiting,
) -> Result<Vec<Tensor>, RequestFailure> {
    let mut stages = Stages::begin(&version.metrics, Accounting::Counted);
    let result = infer_timed(version, inputs, output_names, waiting, &stages).await;
    stages.end(result.as_ref().err().map(|failure| failure.code));
    result
}

async fn infer_timed<N: AsRef<str>>(
    version: &LoadedVersion,
    inputs: Vec<Tensor>,
    output_names: &[N],
    waiting: Waiting,
    stages: &Stages<'_>,
) -> Result<Vec<Tensor>, RequestFailure> {
    let invalid = |mismatch: SignatureMismatch| {
        version.metrics.inference().failed(ErrorCode::InvalidTensors, stages.started.elapsed());
        mismatch_failure(version, &mismatch)
    };
    let selection = version.signature.select_outputs(output_names).map_err(invalid)?;
    let (inputs, rows) = version.check_inputs(inputs).map_err(invalid)?;
    let inferred = submit(version, (inputs, rows), waiting, stages).await?;
    Ok(pick_outputs(&inferred.outputs, &selection))
}

/// Triton begins these texts with the request's id, but for names that the model does not have.
fn mismatch_failure(version: &LoadedVersion, mismatch: &SignatureMismatch) -> RequestFailure {
    let failure = RequestFailure::new(ErrorCode::InvalidTensors, mismatch.text(version.model.as_str()));
    match mismatch {
        SignatureMismatch::UnknownInput(_) | SignatureMismatch::UnknownOutput(_) => failure,
        _ => failure.naming_request(),
    }
}

/// Runs checked tensors, unless their answer is known.
async fn submit(
    version: &LoadedVersion,
    (inputs, rows): (Vec<Tensor>, u64),
    waiting: Waiting,
    stages: &Stages<'_>,
) -> Result<Inferred, BatchError> {
    let mut submission = Submission { metrics: stages.metrics, started: Instant::now() };
    // A sample shows what the model answers now.
    let answers = version.answers.as_ref().filter(|_| stages.metrics.is_some());
    let missing = match answers.map(|answers| answers.look_up(&inputs)) {
        Some(Lookup::Hit(outputs, lookup)) => {
            let inferred = Inferred { outputs, queue: Duration::ZERO, times: BatchTimes::default(), batch_rows: 0 };
            let outcome = look_for_non_finite(version, inferred, stages);
            submission.end(&outcome.as_ref().map(|_| Success::Known { lookup }));
            return outcome;
        }
        Some(Lookup::Miss(missing)) => Some(missing),
        None => None,
    };
    let Waiting { deadline, priority, timeout } = waiting;
    let request = InferenceRequest { inputs, rows, deadline: Some(deadline), priority, timeout };
    let outcome = version.batch.submit(request).await;
    if let (Some(answers), Some(missing), Ok(inferred)) = (answers, missing, &outcome) {
        version.metrics.inference().missed(answers.keep(&missing, &inferred.outputs));
    }
    let outcome = outcome.and_then(|inferred| look_for_non_finite(version, inferred, stages));
    submission.end(&outcome.as_ref().map(|inferred| Success::Inferred { rows, inferred }));
    let inferred = outcome?;
    observed::rows(rows, inferred.batch_rows);
    stages.record(Stage::Queue, inferred.queue);
    stages.record(Stage::Compute, inferred.times.compute);
    Ok(inferred)
}

/// Counts outputs that hold a NaN or an infinity; where the model's configuration says so the request fails with them.
fn look_for_non_finite(
    version: &LoadedVersion,
    inferred: Inferred,
    stages: &Stages<'_>,
) -> Result<Inferred, BatchError> {
    let mut found = None;
    for output in inferred.outputs.iter().filter(|output| is_non_finite(output)) {
        if let Some(metrics) = stages.metrics {
            metrics.non_finite(output.name());
        }
        found = found.or(Some(output.name()));
    }
    match found {
        Some(output) if version.non_finite == NonFinite::Refuse => {
            let text = format!(
                "output '{output}' holds a NaN or an infinity, which the model's configuration refuses \
                 (airlock.non_finite)"
            );
            Err(BatchError::Engine(EngineError::Run(text)))
        }
        _ => Ok(inferred),
    }
}

/// A client's tensors on their way through the model, for what Triton counts.
struct Submission<'a> {
    metrics: Option<&'a VersionMetrics>,
    started: Instant,
}

/// How a client's tensors were answered.
enum Success<'a> {
    /// By the model.
    Inferred { rows: u64, inferred: &'a Inferred },
    /// By the response cache, looking into which took so long.
    Known { lookup: Duration },
}

impl Submission<'_> {
    fn end(&mut self, outcome: &Result<Success<'_>, &BatchError>) {
        let Some(metrics) = self.metrics.take() else { return };
        let time = self.started.elapsed();
        match *outcome {
            Ok(Success::Inferred { rows, inferred }) => metrics.inference().succeeded(rows, inferred, time),
            Ok(Success::Known { lookup }) => metrics.inference().hit(lookup, time),
            Err(error) => metrics.inference().failed(RequestFailure::from(error.clone()).code, time),
        }
    }
}

impl Drop for Submission<'_> {
    /// Dropped before its end: the client left.
    fn drop(&mut self) {
        if let Some(metrics) = self.metrics {
            metrics.inference().failed(ErrorCode::Cancelled, self.started.elapsed());
        }
    }
}

/// The outputs at `selection`, in its order; the data is shared, not copied.
fn pick_outputs(outputs: &[Tensor], selection: &[usize]) -> Vec<Tensor> {
    selection.iter().map(|&position| outputs[position].clone()).collect()
}

/// Triton answers an expired request with 503; behind a plugin there is no Triton client, and the gateway's word is 504.
fn expired_is_504(error: BatchError) -> RequestFailure {
    let expired = matches!(error, BatchError::Expired);
    let mut failure = RequestFailure::from(error);
    if expired {
        failure.code = ErrorCode::DeadlineExceeded;
    }
    failure
}

/// No header is granted to any plugin yet, so none is passed on.
fn plugin_call(version: &LoadedVersion, request: &PredictRequest, accounting: Accounting) -> Call {
    Call {
        request_id: request.request_id.clone(),
        trace_id: observed::trace_id(),
        version: version.number,
        content_type: request.content_type.clone(),
        accept: request.accept.clone(),
        headers: Vec::new(),
        signature: Arc::clone(&version.signature),
        is_counted: accounting == Accounting::Counted,
    }
}

fn no_plugin(version: &LoadedVersion) -> RequestFailure {
    let model = &version.model;
    RequestFailure::new(
        ErrorCode::NotSupported,
        format!("model '{model}' has no plugin; put a plugin.wasm into its folder, or use /v2/models/{model}/infer"),
    )
}

fn plugin_refused(version: &LoadedVersion, reason: &str) -> RequestFailure {
    let text = format!("the plugin of model '{}' does not serve: {reason}", version.model);
    RequestFailure::new(ErrorCode::ModelNotReady, text).retry_after(Duration::from_secs(1))
}
