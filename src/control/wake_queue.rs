//! The one ordered wake queue: which host can act when, earliest slot first.
//!
//! Entries that a later one replaced stay in the heap and are skipped when they surface; the heap is
//! rebuilt when they outnumber the live ones, so it holds at most about twice as many entries as hosts.
//! Among hosts that are due at the same moment the one that waited longest comes first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{HostId, Mono};

/// A host's place in the queue; kept in its slot. Zero = not queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Ticket(u64);

impl Ticket {
    /// Whether it stands for a place in the queue.
    pub(super) fn is_queued(self) -> bool {
        self.0 != 0
    }
}

/// Numbers places, over all queues: an entry that was left behind in one can never be taken for a place in another.
#[derive(Debug, Default)]
pub(super) struct Tickets(u64);

/// The queue.
#[derive(Debug, Default)]
pub(super) struct WakeQueue {
    heap: BinaryHeap<Reverse<(Mono, u64, HostId)>>,
    live: usize,
}

impl WakeQueue {
    /// Puts `host` at `at` in place of the entry that `ticket` stands for, which was one of this queue.
    pub(super) fn put(&mut self, tickets: &mut Tickets, ticket: &mut Ticket, host: HostId, at: Mono) {
        if !ticket.is_queued() {
            self.live += 1;
        }
        tickets.0 += 1;
        *ticket = Ticket(tickets.0);
        self.heap.push(Reverse((at, tickets.0, host)));
    }

    /// Takes `host`'s entry out.
    pub(super) fn remove(&mut self, ticket: &mut Ticket) {
        if ticket.is_queued() {
            self.live -= 1;
            *ticket = Ticket::default();
        }
    }

    /// The earliest live entry, with its number. `ticket_of` tells a host's current ticket.
    pub(super) fn peek(&mut self, ticket_of: impl Fn(HostId) -> Ticket) -> Option<(Mono, u64, HostId)> {
        if self.heap.len() > 2 * self.live + 64 {
            self.heap.retain(|Reverse((_, number, host))| ticket_of(*host) == Ticket(*number));
        }
        while let Some(Reverse((at, number, host))) = self.heap.peek() {
            if ticket_of(*host) == Ticket(*number) {
                return Some((*at, *number, *host));
            }
            self.heap.pop();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaced_entries_are_skipped_and_do_not_pile_up() {
        let (mut queue, mut numbers) = (WakeQueue::default(), Tickets::default());
        let mut tickets = [Ticket::default(); 2];
        for step in 0..10_000_u64 {
            let host = HostId((step % 2) as u32);
            queue.put(&mut numbers, &mut tickets[host.0 as usize], host, Mono::from_nanos(20_000 - step));
            let head = queue.peek(|host| tickets[host.0 as usize]);
            assert_eq!(head.map(|(at, _, host)| (at, host)), Some((Mono::from_nanos(20_000 - step), host)));
        }
        assert!(queue.heap.len() <= 2 * 2 + 64 + 1);
        queue.remove(&mut tickets[1]);
        assert_eq!(queue.peek(|host| tickets[host.0 as usize]).map(|(_, _, host)| host), Some(HostId(0)));
        queue.remove(&mut tickets[0]);
        assert_eq!(queue.peek(|host| tickets[host.0 as usize]), None);
    }

    #[test]
    fn equal_moments_are_served_in_turn() {
        let (mut queue, mut numbers) = (WakeQueue::default(), Tickets::default());
        let mut tickets = [Ticket::default(); 3];
        for host in [2, 0, 1] {
            queue.put(&mut numbers, &mut tickets[host], HostId(host as u32), Mono::ZERO);
        }
        for expected in [2, 0, 1, 2, 0] {
            let (_, _, host) = queue.peek(|host| tickets[host.0 as usize]).expect("queued");
            assert_eq!(host.0, expected);
            queue.remove(&mut tickets[host.0 as usize]);
            queue.put(&mut numbers, &mut tickets[host.0 as usize], host, Mono::ZERO);
        }
    }
}
