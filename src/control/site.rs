//! What a site says beside its answers: robots.txt and its Crawl-delay, a wait that a head asks for.

use std::time::Duration;

use super::host::{CRAWL_DELAY_MAX, CrawlDelay};
use super::{Controller, HostId, Mono, Value, Verdict, What, Who};

impl Controller {
    /// The head of the response to the request sent at `sent` asks for a wait, on top of a status whose body is still
    /// to come (RFC 9110 10.2.3 allows it on any): the host waits from now on, the body may take its time. The answer
    /// that follows brings no wait of its own.
    pub fn asked(&mut self, now: Mono, host: HostId, sent: Mono, status: u16, wait: Duration) {
        let Some(slot) = self.slots.get_mut(host.0 as usize) else { return };
        let (id, Some(hot)) = (slot.group, &mut slot.hot) else { return };
        let shared = self.groups.get_mut(id).and_then(|group| group.hot.as_deref_mut());
        let holding = shared.map_or(&mut hot.holding, |shared| &mut shared.holding);
        let held = holding.on_asked(now, sent, wait, &self.settings.backoff, self.jitter.as_mut());
        if let Some((before, after)) = held {
            let why = super::tell::hold_reason(&after, Verdict::Status(status), false);
            match self.group_of(host).map(str::to_owned) {
                Some(name) => {
                    let left = Value::Number(before.map_or(0.0, |hold| hold.until.secs_since(now)));
                    let (after, why) = (Value::Number(after.until.secs_since(now)), format!("group {name}: {why}"));
                    self.decide(now, Who::Server, Some(host), What::GroupHold, left, after, why);
                    self.save_group_later(id);
                    self.replan_members(now, id);
                }
                None => self.tell_held(now, Who::Server, host, before, &after, why),
            }
            self.save_later(host);
        }
        self.replan(now, host);
    }

    /// Holds a host until `until`, since a robots.txt of its cannot be had: complete disallow while it lasts.
    pub fn robots_unreachable(&mut self, now: Mono, host: HostId, until: Mono, why: &str) {
        let Some(hot) = self.heat(now, host) else { return };
        let held = hot.holding.robots_unreachable(now, until);
        self.save_later(host);
        if let Some((before, after)) = held {
            self.tell_held(now, Who::Site, host, before, &after, format!("robots.txt unreachable: {why}"));
        }
        self.replan(now, host);
    }

    /// While `gated`, nothing goes to the host: its robots.txt is being asked for.
    pub fn set_gated(&mut self, now: Mono, host: HostId, gated: bool) {
        if let Some(hot) = self.heat(now, host) {
            hot.gated = gated;
        }
        self.replan(now, host);
    }

    /// robots.txt came: the site's Crawl-delay as it asked; `None` = it asks for none (any more).
    pub fn set_crawl_delay(&mut self, now: Mono, host: HostId, asked: Option<Duration>) {
        self.heat(now, host);
        self.save_later(host);
        let Some(slot) = self.slots.get_mut(host.0 as usize) else { return };
        let policy = &self.settings.policies[usize::from(slot.policy.0)];
        let Some(hot) = &mut slot.hot else { return };
        hot.holding.reachable();
        hot.given_up = false;
        let before = hot.crawl_delay.as_deref().copied();
        let delay = asked.filter(|asked| !asked.is_zero()).map(|asked| {
            let obeyed = asked.min(CRAWL_DELAY_MAX);
            let gap_until = before.map_or(now.after(obeyed), |before| before.gap_until.max(now.after(obeyed)));
            CrawlDelay { asked, obeyed, gap_until }
        });
        if before.map(|one| one.asked) == delay.map(|one| one.asked) {
            return;
        }
        hot.crawl_delay = delay.map(Box::new);
        hot.retarget(now, policy, &self.settings);
        let seconds =
            |delay: Option<CrawlDelay>| delay.map_or(Value::None, |one| Value::Number(one.asked.as_secs_f64()));
        let why = match delay {
            Some(delay) if delay.obeyed < delay.asked => format!(
                "site asked for Crawl-delay {} s, capped at {} s: pause the host if it asks you by other means",
                delay.asked.as_secs_f64(),
                delay.obeyed.as_secs()
            ),
            Some(delay) => format!("site asked for Crawl-delay {} s", delay.asked.as_secs_f64()),
            None => String::from("site asks for no Crawl-delay"),
        };
        self.decide(now, Who::Site, Some(host), What::CrawlDelay, seconds(before), seconds(delay), why);
        self.replan(now, host);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::backoff::SeededJitter;
    use crate::control::host::LaneQueue;
    use crate::control::{Answer, Grant, Lane, Outcome, PolicyId, RequestKind, Settings};

    const ASKED: Duration = Duration::from_secs(600);

    fn answered(now: Mono, grant: &Grant) -> Answer {
        Answer {
            host: grant.host,
            lane: grant.lane,
            kind: RequestKind::Page,
            sent: grant.at,
            verdict: Verdict::Status(200),
            retry_after: None,
            latency: now.since(grant.at),
            unprocessed: false,
        }
    }

    /// Two requests in flight to a busy host.
    fn busy() -> (Controller, HostId, Grant, Grant) {
        let mut controller = Controller::new(Settings::default(), Box::new(SeededJitter::new(1)));
        let host = controller.add_host(PolicyId(0));
        controller.set_queue(Mono::ZERO, host, Lane(0), LaneQueue { ready: 9, ..LaneQueue::EMPTY });
        let mut grant = || controller.next(Mono::ZERO).expect("tokens");
        let (first, second) = (grant(), grant());
        (controller, host, first, second)
    }

    #[test]
    fn a_wait_in_a_head_holds_before_the_body_is_there_and_its_end_changes_nothing() {
        let (mut controller, host, first, second) = busy();
        let now = Mono::from_secs_f64(1.0);
        controller.asked(now, host, first.at, 200, ASKED);
        let ends = controller.next_wake();
        assert!(ends >= now.after(ASKED), "{ends:?}");
        for (at, grant) in [(2.0, second), (300.0, first)] {
            let at = Mono::from_secs_f64(at);
            assert_eq!(controller.answer(at, &answered(at, &grant)).outcome, Outcome::Ok);
            assert!(controller.next(at).is_none());
            assert_eq!(controller.next_wake(), ends);
        }
        // Then one probe, as after any hold.
        assert!(controller.next(ends).is_some());
        assert!(controller.next(ends.after(ASKED)).is_none());
        let told = controller.take_decisions();
        let held: Vec<_> = told.iter().filter(|one| one.what == What::Hold).collect();
        assert_eq!(held.len(), 1);
        assert_eq!((held[0].who, &*held[0].why), (Who::Server, "200, server asked to retry after 600 s"));
    }

    #[test]
    fn a_probe_whose_head_asks_for_a_wait_opens_nothing_until_that_is_over() {
        let (mut controller, host, first, second) = busy();
        controller.asked(Mono::ZERO, host, first.at, 200, ASKED);
        let now = controller.next_wake();
        for grant in [first, second] {
            controller.answer(now, &answered(now, &grant));
        }
        let probe = controller.next(now).expect("the probe");
        controller.asked(now, host, probe.at, 200, ASKED);
        controller.answer(now, &answered(now, &probe));
        assert!(controller.next(now).is_none());
        assert!(controller.next_wake() >= now.after(ASKED));
    }
}
