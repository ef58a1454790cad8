//! Models that are gone and whose series are still shown, so that a scraper sees their last values. The janitor owns the
//! list, looks now and then, and has the series of those forgotten that have been gone for long enough.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use model::ModelName;
use tokio::time::Instant;

/// How long a model that is gone is still told of, in its series and in the index: several times any usual scrape interval.
pub const SERIES_GRACE: Duration = Duration::from_secs(600);

/// See the module.
#[derive(Debug, Default)]
pub struct Departed {
    /// Since when each is gone.
    since: BTreeMap<ModelName, Instant>,
}

impl Departed {
    /// Takes in which models are gone at `now`; returns those that have been for [`SERIES_GRACE`] each time that it was
    /// looked. One that came back meanwhile starts anew.
    pub fn due(&mut self, now: Instant, gone: &BTreeSet<ModelName>) -> BTreeSet<ModelName> {
        self.since.retain(|name, _| gone.contains(name));
        for name in gone {
            self.since.entry(name.clone()).or_insert(now);
        }
        let is_due = |since: &Instant| now.saturating_duration_since(*since) >= SERIES_GRACE;
        self.since.iter().filter(|(_, since)| is_due(since)).map(|(name, _)| name.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_due_after_the_grace_and_not_of_one_that_came_back() {
        let name = |name| ModelName::new(name).expect("a name");
        let (both, one) = (BTreeSet::from([name("a"), name("b")]), BTreeSet::from([name("a")]));
        let (start, none) = (Instant::now(), BTreeSet::new());
        let almost = SERIES_GRACE - Duration::from_millis(1);
        let mut departed = Departed::default();
        assert_eq!(departed.due(start, &both), none);
        assert_eq!(departed.due(start + Duration::from_secs(60), &one), none, "b is back");
        assert_eq!(departed.due(start + almost, &both), none, "b is gone again");
        assert_eq!(departed.due(start + SERIES_GRACE, &both), one);
        assert_eq!(departed.due(start + SERIES_GRACE, &both), one, "until they are forgotten");
        assert_eq!(departed.due(start + almost + SERIES_GRACE, &both), both);
        assert_eq!(departed.due(start + almost + SERIES_GRACE, &none), none, "nothing is left of them");
    }
}
