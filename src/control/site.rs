//! What a site's robots.txt does to its host: holds while it cannot be had, the gate while it is asked for, Crawl-delay.

use std::time::Duration;

use super::host::{CRAWL_DELAY_MAX, CrawlDelay};
use super::{Controller, HostId, Mono, Value, What, Who};

impl Controller {
    /// Holds a host until `until`, since a robots.txt of its cannot be had: complete disallow while it lasts.
    pub fn robots_unreachable(&mut self, now: Mono, host: HostId, until: Mono, why: &str) {
        let Some(hot) = self.heat(now, host) else { return };
        let held = hot.holding.robots_unreachable(now, until);
        self.save_later(host);
        if let Some((before, after)) = held {
            let before = Value::Number(before.map_or(0.0, |hold| hold.until.secs_since(now)));
            let after = Value::Number(after.until.secs_since(now));
            self.decide(
                now,
                Who::Site,
                Some(host),
                What::Hold,
                before,
                after,
                format!("robots.txt unreachable: {why}"),
            );
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
        let before = hot.crawl_delay;
        let delay = asked.filter(|asked| !asked.is_zero()).map(|asked| {
            let obeyed = asked.min(CRAWL_DELAY_MAX);
            let gap_until = before.map_or(now.after(obeyed), |before| before.gap_until.max(now.after(obeyed)));
            CrawlDelay { asked, obeyed, gap_until }
        });
        if before.map(|one| one.asked) == delay.map(|one| one.asked) {
            return;
        }
        hot.crawl_delay = delay;
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
