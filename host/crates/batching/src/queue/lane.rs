//! The waiting requests of one shape, in the order in which they run. A request in pieces stands in it with each piece
//! that still waits, one behind the other.

use std::collections::{BTreeMap, VecDeque};

use super::Ticket;
use super::ranking::{Place, Rank};
use crate::decision::{BatchRules, Survey};

/// See the module.
pub(super) struct Lane {
    line: Line,
    /// The head under which the lane stands in `BatchQueue::full`.
    pub(super) full_head: Option<Place>,
}

/// Rows of each piece, by place.
enum Line {
    /// Everybody has the same rank, so that whoever comes goes last.
    Arrival(VecDeque<(Ticket, u64)>),
    /// Pieces of one request are told apart by their number.
    Ranked(BTreeMap<(Place, usize), u64>),
}

impl Lane {
    /// An empty lane for requests that all have the same rank.
    pub(super) fn in_order_of_arrival() -> Self {
        Self { line: Line::Arrival(VecDeque::new()), full_head: None }
    }

    /// An empty lane for requests of any rank.
    pub(super) fn ranked() -> Self {
        Self { line: Line::Ranked(BTreeMap::new()), full_head: None }
    }

    /// Adds a request, `rows` of each of its pieces.
    pub(super) fn push(&mut self, place: Place, rows: impl Iterator<Item = u64>) {
        match &mut self.line {
            Line::Arrival(line) => rows.for_each(|rows| line.push_back((place.ticket, rows))),
            Line::Ranked(line) => line.extend(rows.enumerate().map(|(number, rows)| ((place, number), rows))),
        }
    }

    /// Takes the first piece out and names its request.
    pub(super) fn pop(&mut self) -> Option<Ticket> {
        match &mut self.line {
            Line::Arrival(line) => line.pop_front().map(|(ticket, _)| ticket),
            Line::Ranked(line) => line.pop_first().map(|((place, _), _)| place.ticket),
        }
    }

    /// Takes all pieces of a request out.
    pub(super) fn remove(&mut self, place: Place) {
        match &mut self.line {
            Line::Arrival(line) => {
                let start = line.partition_point(|&(ticket, _)| ticket < place.ticket);
                let pieces = line.iter().skip(start).take_while(|&&(ticket, _)| ticket == place.ticket).count();
                line.drain(start..start + pieces);
            }
            Line::Ranked(line) => {
                while let Some((&piece, _)) = line.range((place, 0)..=(place, usize::MAX)).next() {
                    line.remove(&piece);
                }
            }
        }
    }

    /// Where the first request stands.
    pub(super) fn head(&self) -> Option<Place> {
        match &self.line {
            Line::Arrival(line) => line.front().map(|&(ticket, _)| Place { rank: Rank::default(), ticket }),
            Line::Ranked(line) => line.first_key_value().map(|(&(place, _), _)| place),
        }
    }

    /// What a batch from the head on could be.
    pub(super) fn survey(&self, rules: &BatchRules) -> Survey {
        match &self.line {
            Line::Arrival(line) => rules.survey(line.iter().map(|&(_, rows)| rows)),
            Line::Ranked(line) => rules.survey(line.values().copied()),
        }
    }
}

#[cfg(test)]
mod tests {
    use model::BatchingConfig;

    use super::*;
    use crate::decision::Delay;

    const PLAIN: Rank = Rank { level: 0, is_postponed: false };
    const URGENT: Rank = Rank { level: 1, is_postponed: false };
    const URGENT_POSTPONED: Rank = Rank { level: 1, is_postponed: true };
    const LESS_URGENT: Rank = Rank { level: 2, is_postponed: false };

    fn place(rank: Rank, ticket: u64) -> Place {
        Place { rank, ticket: Ticket(ticket) }
    }

    fn drain(lane: &mut Lane) -> Vec<u64> {
        std::iter::from_fn(|| lane.pop()).map(|ticket| ticket.0).collect()
    }

    #[test]
    fn arrivals_leave_in_their_order_and_all_pieces_together_when_removed() {
        let mut lane = Lane::in_order_of_arrival();
        for (ticket, rows) in [(1, &[1][..]), (2, &[4, 4, 1]), (3, &[2])] {
            lane.push(place(PLAIN, ticket), rows.iter().copied());
        }
        assert_eq!(lane.head(), Some(place(PLAIN, 1)));
        lane.remove(place(PLAIN, 9));
        assert_eq!(lane.pop(), Some(Ticket(1)));
        assert_eq!(lane.pop(), Some(Ticket(2)), "one piece of three");
        lane.remove(place(PLAIN, 2));
        assert_eq!(drain(&mut lane), [3]);
        assert_eq!(lane.head(), None);
    }

    #[test]
    fn ranks_go_before_arrival_and_pieces_stay_together() {
        let mut lane = Lane::ranked();
        let requests: [(Rank, u64, &[u64]); 5] = [
            (LESS_URGENT, 1, &[1]),
            (URGENT_POSTPONED, 2, &[4, 1]),
            (URGENT, 3, &[4, 4]),
            (URGENT, 4, &[1]),
            (URGENT_POSTPONED, 5, &[1]),
        ];
        for (rank, ticket, rows) in requests {
            lane.push(place(rank, ticket), rows.iter().copied());
        }
        let rules = BatchRules::new(8, &BatchingConfig::default());
        assert_eq!(lane.survey(&rules).requests(Delay::Over), 2, "the two pieces of 3 are 8 rows");
        assert_eq!(lane.head(), Some(place(URGENT, 3)));
        lane.remove(place(URGENT_POSTPONED, 5));
        assert_eq!(drain(&mut lane), [3, 3, 4, 2, 2, 1]);
    }
}
