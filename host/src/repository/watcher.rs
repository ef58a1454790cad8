//! File events as hints: which models to look at sooner than the next scan would. Nothing depends on them: on file
//! systems without events, or after an overflow, the periodic scan finds the same changes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};

use model::ModelName;
use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};

use super::reconciler::Wake;

/// Models with file events since last asked.
#[derive(Clone, Debug, Default)]
pub struct Hints(Arc<Mutex<HintState>>);

#[derive(Debug, Default)]
struct HintState {
    models: BTreeSet<ModelName>,
    everything: bool,
}

impl Hints {
    /// Takes the hints gathered so far; `None` means that everything should be looked at.
    #[must_use]
    pub fn take(&self) -> Option<BTreeSet<ModelName>> {
        let state = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        (!state.everything).then_some(state.models)
    }

    fn add(&self, models: impl Iterator<Item = Option<ModelName>>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for model in models {
            match model {
                Some(model) => drop(state.models.insert(model)),
                None => state.everything = true,
            }
        }
    }
}

/// Watches until dropped.
pub struct FileWatcher {
    _watcher: RecommendedWatcher,
}

impl FileWatcher {
    /// Starts watching `roots`. Each event adds a hint and sends one wake-up, which is dropped where one is waiting.
    ///
    /// # Errors
    /// Where the system has no file events for us; the periodic scan is enough then.
    pub fn start(roots: &[PathBuf], hints: Hints, wake: SyncSender<Wake>) -> notify::Result<Self> {
        let watched: Vec<PathBuf> = roots.iter().map(|r| r.canonicalize().unwrap_or_else(|_| r.clone())).collect();
        let known = watched.clone();
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            match event {
                Ok(event) if is_reading(event.kind) => return,
                Ok(event) if !event.need_rescan() => {
                    hints.add(event.paths.iter().map(|path| model_of(&known, path)));
                }
                _ => hints.add(std::iter::once(None)),
            }
            let _ = wake.try_send(Wake::Hint);
        })?;
        for root in &watched {
            watcher.watch(root, RecursiveMode::Recursive)?;
        }
        Ok(Self { _watcher: watcher })
    }
}

/// Our own reading must not wake us.
fn is_reading(kind: EventKind) -> bool {
    matches!(kind, EventKind::Access(access) if access != AccessKind::Close(AccessMode::Write))
}

fn model_of(roots: &[PathBuf], path: &Path) -> Option<ModelName> {
    let relative = roots.iter().find_map(|root| path.strip_prefix(root).ok())?;
    ModelName::new(relative.components().next()?.as_os_str().to_str()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_name_the_model_they_belong_to() {
        let roots = [PathBuf::from("/r"), PathBuf::from("/s")];
        let name = |path: &str| model_of(&roots, Path::new(path)).map(|n| n.to_string());
        assert_eq!(name("/s/fraud/1/model.onnx"), Some("fraud".to_owned()));
        assert_eq!(name("/r/fraud"), Some("fraud".to_owned()));
        assert_eq!(name("/r"), None, "the root itself: look at everything");
        assert_eq!(name("/elsewhere/x"), None);
    }

    #[test]
    fn hints_are_taken_once() {
        let hints = Hints::default();
        hints.add([ModelName::new("a").ok()].into_iter());
        assert_eq!(hints.take().map(|models| models.len()), Some(1));
        assert_eq!(hints.take().map(|models| models.len()), Some(0));
        hints.add(std::iter::once(None));
        assert_eq!(hints.take(), None);
    }
}
