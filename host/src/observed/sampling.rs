//! Which requests are traced: the settings of all models and those of one, as clients read and change them over HTTP and
//! gRPC. Readers take one snapshot of a table; a change makes a new one. Texts are Triton's where it has one.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use model::ErrorCode;

use super::trace_context::TraceContext;
use crate::failure::{RequestFailure, clipped};
use crate::settings::{TraceLevels, TraceMode, TraceSettings, TraceValues};

/// A key with its values; `None` takes back what was said of it.
pub type TraceChange = (String, Option<Vec<String>>);

/// Which requests are traced.
pub struct Sampling {
    start: TraceSettings,
    table: ArcSwap<Table>,
    /// Held by whoever makes the next table.
    changing: Mutex<()>,
}

#[derive(Clone)]
struct Table {
    all: Arc<Sampler>,
    said_of_all: Said,
    models: HashMap<String, (Said, Arc<Sampler>)>,
}

/// What has been said; the rest is as elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Said {
    levels: Option<TraceLevels>,
    rate: Option<u32>,
    count: Option<i32>,
    log_frequency: Option<u32>,
}

/// Picks requests by settings that stand.
struct Sampler {
    values: TraceValues,
    seen: AtomicU64,
    left: AtomicI64,
}

impl Sampler {
    fn new(values: TraceValues) -> Arc<Self> {
        Arc::new(Self { values, seen: AtomicU64::new(0), left: AtomicI64::new(values.count.into()) })
    }

    /// Whether a request is traced: as its client decided, where it did, else one in so many.
    fn picks(&self, context: &TraceContext) -> bool {
        let TraceValues { levels, rate, count, .. } = self.values;
        if !levels.timestamps {
            return false;
        }
        let is_picked = match context.parent {
            Some(_) => context.is_sampled,
            None => rate > 0 && (self.seen.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(rate.into()),
        };
        is_picked && (count < 0 || self.left.fetch_sub(1, Ordering::Relaxed) > 0)
    }
}

impl Said {
    fn over(self, base: TraceValues) -> TraceValues {
        TraceValues {
            levels: self.levels.unwrap_or(base.levels),
            rate: self.rate.unwrap_or(base.rate),
            count: self.count.unwrap_or(base.count),
            log_frequency: self.log_frequency.unwrap_or(base.log_frequency),
        }
    }

    fn take(&mut self, key: &str, values: Option<&[String]>) -> Result<(), RequestFailure> {
        match key {
            "trace_file" => {
                let text = "trace file location can not be updated through network protocol";
                return Err(RequestFailure::new(ErrorCode::NotImplemented, text));
            }
            "trace_level" => {
                let named = values.map(|names| TraceLevels::named(names.iter().map(String::as_str)));
                self.levels = named.transpose().map_err(malformed)?;
            }
            "trace_rate" => self.rate = number(key, values, 0, u32::MAX.into())?,
            "trace_count" => self.count = number(key, values, -1, i32::MAX.into())?,
            "log_frequency" => self.log_frequency = number(key, values, 0, u32::MAX.into())?,
            "trace_mode" => return Err(malformed("trace_mode can not be changed while the server runs")),
            _ => {
                return Err(malformed(format!(
                    "unknown trace setting '{}'; known are trace_level, trace_rate, trace_count, log_frequency and, to be \
                     read, trace_file and trace_mode",
                    clipped(key)
                )));
            }
        }
        Ok(())
    }
}

/// The one number among `values`.
fn number<N: TryFrom<i64>>(
    key: &str,
    values: Option<&[String]>,
    min: i64,
    max: i64,
) -> Result<Option<N>, RequestFailure> {
    let Some(values) = values else { return Ok(None) };
    let [text] = values else { return Err(malformed(format!("expect only 1 value for '{key}'"))) };
    let shown = clipped(text);
    let number: i128 = text.parse().map_err(|_| malformed(format!("Unable to parse '{key}', got: {shown}")))?;
    let within = i64::try_from(number).ok().filter(|number| (min..=max).contains(number));
    let out_of_range =
        || malformed(format!("Unable to parse '{key}', value is out of range [ {min}, {max} ], got: {shown}"));
    within.and_then(|number| N::try_from(number).ok()).map(Some).ok_or_else(out_of_range)
}

impl Sampling {
    /// As the flags say.
    #[must_use]
    pub fn new(start: TraceSettings) -> Self {
        let table = Table { all: Sampler::new(start.values), said_of_all: Said::default(), models: HashMap::new() };
        Self { start, table: ArcSwap::from_pointee(table), changing: Mutex::new(()) }
    }

    /// Whether spans go anywhere.
    #[must_use]
    pub(super) fn is_exported(&self) -> bool {
        self.start.mode == TraceMode::OpenTelemetry
    }

    /// Whether a request of `model` is traced; of none that is known, by the settings of all.
    pub(super) fn picks(&self, model: Option<&str>, context: &TraceContext) -> bool {
        let table = self.table.load();
        let own = model.and_then(|model| table.models.get(model)).map(|(_, sampler)| sampler);
        own.unwrap_or(&table.all).picks(context)
    }

    /// The settings of all models or of one, as key and values.
    #[must_use]
    pub fn view(&self, model: Option<&str>) -> Vec<(&'static str, Vec<String>)> {
        let table = self.table.load();
        let own = model.and_then(|model| table.models.get(model)).map(|(_, sampler)| sampler);
        let values = own.unwrap_or(&table.all).values;
        let one = |value: &dyn Display| vec![value.to_string()];
        let mut view = vec![
            ("trace_level", values.levels.names().into_iter().map(str::to_owned).collect()),
            ("trace_rate", one(&values.rate)),
            ("trace_count", one(&values.count)),
        ];
        let batch = self.start.batch;
        match self.start.mode {
            TraceMode::Triton => view.extend([
                ("log_frequency", one(&values.log_frequency)),
                ("trace_file", one(&self.start.file)),
                ("trace_mode", one(&self.start.mode.name())),
            ]),
            TraceMode::OpenTelemetry => view.extend([
                ("trace_mode", one(&self.start.mode.name())),
                ("url", one(&self.start.url)),
                ("bsp_max_queue_size", one(&batch.queue_max)),
                ("bsp_schedule_delay", one(&batch.delay.as_millis())),
                ("bsp_max_export_batch_size", one(&batch.export_max)),
            ]),
        }
        view
    }

    /// Changes the settings of all models or of one; a change is checked as a whole before any of it holds.
    ///
    /// # Errors
    /// A [`RequestFailure`] for an unknown key, a wrong value, and for what cannot be changed.
    pub fn update(&self, model: Option<&str>, changes: &[TraceChange]) -> Result<(), RequestFailure> {
        if changes.is_empty() {
            return Ok(());
        }
        let _alone = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut table = Table::clone(&self.table.load());
        let said = match model {
            Some(model) => table.models.get(model).map(|(said, _)| *said).unwrap_or_default(),
            None => table.said_of_all,
        };
        let mut wanted = said;
        for (key, values) in changes {
            wanted.take(key, values.as_deref())?;
        }
        match model {
            Some(model) => table.say_of(model, wanted),
            None => table.say_of_all(wanted, self.start.values),
        }
        if !self.is_exported() && self.start_levels_changed(wanted) {
            tracing::warn!(
                "trace levels were changed, and nothing is traced without --trace-config mode=opentelemetry"
            );
        }
        self.table.store(Arc::new(table));
        Ok(())
    }

    fn start_levels_changed(&self, wanted: Said) -> bool {
        wanted.levels.is_some_and(|levels| levels != self.start.values.levels)
    }
}

impl Table {
    fn say_of(&mut self, model: &str, said: Said) {
        if said == Said::default() {
            self.models.remove(model);
        } else {
            self.models.insert(model.to_owned(), (said, Sampler::new(said.over(self.all.values))));
        }
    }

    /// What models have not said of themselves follows.
    fn say_of_all(&mut self, said: Said, start: TraceValues) {
        self.said_of_all = said;
        self.all = Sampler::new(said.over(start));
        for (said, sampler) in self.models.values_mut() {
            let values = said.over(self.all.values);
            if values != sampler.values {
                *sampler = Sampler::new(values);
            }
        }
    }
}

fn malformed(text: impl Into<String>) -> RequestFailure {
    RequestFailure::new(ErrorCode::MalformedRequest, text)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::settings::{ServeArgs, Settings};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ServeArgs,
    }

    fn sampling(flags: &[&str]) -> Sampling {
        let repository = tempfile::tempdir().expect("a folder");
        let folder = repository.path().to_str().expect("UTF-8");
        let fixed = ["serve", "--model-repository", folder];
        let Line { args } = Line::parse_from(fixed.iter().chain(flags));
        Sampling::new(Settings::from_args(args).expect("valid").tracing)
    }

    fn change(key: &str, values: &[&str]) -> TraceChange {
        (key.to_owned(), Some(values.iter().map(|&value| value.to_owned()).collect()))
    }

    fn shown(sampling: &Sampling, model: Option<&str>) -> String {
        let view = sampling.view(model);
        view.iter().map(|(key, values)| format!("{key}={}", values.join("+"))).collect::<Vec<_>>().join(" ")
    }

    fn picked(sampling: &Sampling, model: &str, requests: usize) -> usize {
        (0..requests).filter(|_| sampling.picks(Some(model), &TraceContext::begun())).count()
    }

    #[test]
    fn what_a_model_does_not_say_follows_what_is_said_of_all() {
        let sampling = sampling(&["--trace-config=rate=6", "--trace-config=triton,file=t.json"]);
        let start = "trace_level=OFF trace_rate=6 trace_count=-1 log_frequency=0 trace_file=t.json trace_mode=triton";
        assert_eq!((shown(&sampling, None), shown(&sampling, Some("m"))), (start.to_owned(), start.to_owned()));
        sampling.update(Some("m"), &[change("log_frequency", &["2"])]).expect("taken");
        sampling
            .update(None, &[change("trace_level", &["TENSORS", "TIMESTAMPS"]), change("trace_rate", &["1"])])
            .expect("taken");
        let all = "trace_level=TIMESTAMPS+TENSORS trace_rate=1 trace_count=-1";
        let rest = "trace_file=t.json trace_mode=triton";
        assert_eq!(shown(&sampling, None), format!("{all} log_frequency=0 {rest}"));
        assert_eq!(shown(&sampling, Some("m")), format!("{all} log_frequency=2 {rest}"));
        let cleared = ["trace_level", "trace_rate"].map(|key| (key.to_owned(), None));
        sampling.update(None, &cleared).expect("taken");
        sampling.update(Some("m"), &[("log_frequency".to_owned(), None)]).expect("taken");
        assert_eq!((shown(&sampling, None), shown(&sampling, Some("m"))), (start.to_owned(), start.to_owned()));
    }

    #[test]
    fn requests_are_picked_by_rate_and_count() {
        let sampling = sampling(&["--trace-config=mode=opentelemetry", "--trace-config=rate=3"]);
        assert_eq!(picked(&sampling, "m", 9), 3);
        sampling.update(Some("m"), &[change("trace_rate", &["1"]), change("trace_count", &["2"])]).expect("taken");
        assert_eq!((picked(&sampling, "m", 9), picked(&sampling, "other", 9)), (2, 3));
        sampling.update(Some("m"), &[change("trace_level", &["OFF"])]).expect("taken");
        assert_eq!((picked(&sampling, "m", 9), picked(&sampling, "other", 9)), (0, 3));
    }

    #[test]
    fn a_client_that_has_decided_is_followed() {
        let sampling = sampling(&["--trace-config=mode=opentelemetry", "--trace-config=rate=0"]);
        let parent = Some(crate::observed::trace_context::SpanId::made());
        for is_sampled in [true, false] {
            let context = TraceContext { parent, is_sampled, ..TraceContext::begun() };
            assert_eq!(sampling.picks(None, &context), is_sampled);
        }
        assert_eq!(picked(&sampling, "m", 9), 0);
    }

    #[test]
    fn what_is_wrong_changes_nothing() {
        let sampling = sampling(&[]);
        for (key, values, text) in [
            ("trace_file", &["f"][..], "trace file location can not be updated through network protocol"),
            ("trace_level", &["OFF", "TENSORS"], "Expect only one trace level 'OFF' is specified"),
            ("trace_rate", &["x"], "Unable to parse 'trace_rate', got: x"),
            ("trace_rate", &["-1"], "Unable to parse 'trace_rate', value is out of range [ 0, 4294967295 ], got: -1"),
            (
                "trace_count",
                &["-2"],
                "Unable to parse 'trace_count', value is out of range [ -1, 2147483647 ], got: -2",
            ),
            ("log_frequency", &["1", "2"], "expect only 1 value for 'log_frequency'"),
            ("trace_mode", &["opentelemetry"], "trace_mode can not be changed while the server runs"),
        ] {
            let changes = [change("trace_count", &["7"]), change(key, values)];
            assert_eq!(sampling.update(None, &changes).expect_err("refused").text, text);
        }
        let unknown = sampling.update(None, &[change("colour", &["red"])]).expect_err("refused").text;
        assert!(unknown.starts_with("unknown trace setting 'colour'; known are trace_level"), "{unknown}");
        assert!(shown(&sampling, None).contains("trace_count=-1"));
    }
}
