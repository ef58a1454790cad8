//! Writes good generations to disk on a thread of its own, so that neither the reconciler nor the janitor waits for the
//! disk. At most one generation per model waits: one that is replaced before it could be written is not kept, since an
//! operator has never seen it serve for longer than a write takes. If the thread ended early, history would miss entries
//! and serving would not notice.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use model::ModelName;

use super::content::PluginContent;
use super::history::{GenerationRecord, History};

/// The running thread.
pub(super) struct HistoryWriter {
    line: Arc<Line>,
    thread: JoinHandle<()>,
}

#[derive(Default)]
struct Line {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: BTreeMap<ModelName, (GenerationRecord, PluginContent)>,
    closed: bool,
}

impl HistoryWriter {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub(super) fn start(history: History) -> std::io::Result<Self> {
        let line = Arc::new(Line::default());
        let own_line = Arc::clone(&line);
        let run = move || {
            while let Some((model, record, content)) = own_line.take() {
                write(&history, &model, &record, &content);
            }
        };
        let thread = std::thread::Builder::new().name("history".to_owned()).spawn(run)?;
        Ok(Self { line, thread })
    }

    /// Has a generation written, in place of one of the same model that still waits.
    pub(super) fn keep(&self, model: ModelName, record: GenerationRecord, content: PluginContent) {
        self.line.lock().waiting.insert(model, (record, content));
        self.line.changed.notify_one();
    }

    /// Writes what waits, then ends.
    pub(super) fn stop(self) {
        self.line.lock().closed = true;
        self.line.changed.notify_all();
        if self.thread.join().is_err() {
            tracing::error!("the history thread panicked; the plugin history may miss generations");
        }
    }
}

impl Line {
    /// Waits for a generation; `None` once the line is closed and empty.
    fn take(&self) -> Option<(ModelName, GenerationRecord, PluginContent)> {
        let mut state = self.lock();
        loop {
            if let Some((model, (record, content))) = state.waiting.pop_first() {
                return Some((model, record, content));
            }
            if state.closed {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn write(history: &History, model: &ModelName, record: &GenerationRecord, content: &PluginContent) {
    let is_there = |last: &GenerationRecord| (last.generation, &last.digest) == (record.generation, &record.digest);
    if history.records(model).last().is_some_and(is_there) {
        return;
    }
    if let Err(error) = history.save(model, record, content) {
        let generation = record.generation;
        tracing::error!(
            %model, generation, %error, folder = %history.root().display(),
            "the plugin history could not be written; make room there, or choose another --state-dir"
        );
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::repository::content::Pieces;

    fn content(byte: u8) -> PluginContent {
        let pieces = Pieces { component: Some(Bytes::from(vec![byte])), ..Pieces::default() };
        pieces.over(&Pieces::default()).expect("has a component")
    }

    fn record(generation: u64) -> GenerationRecord {
        GenerationRecord { generation, digest: format!("d{generation}"), published_unix_seconds: 7 }
    }

    #[test]
    fn what_waits_is_written_before_the_end_and_the_newest_of_a_model_wins() {
        let state = tempfile::tempdir().expect("temporary folder");
        let history = History::new(state.path(), 5);
        let writer = HistoryWriter::start(history.clone()).expect("a thread");
        let models = ["a", "b"].map(|name| ModelName::new(name).expect("a name"));
        for generation in 1..=40 {
            for model in &models {
                writer.keep(model.clone(), record(generation), content(u8::try_from(generation).expect("small")));
            }
        }
        writer.stop();
        for model in &models {
            assert_eq!(history.records(model).last(), Some(&record(40)), "{model}");
        }
    }
}
