//! Names to addresses, with the address guard in between.
//!
//! The HTTP client connects to exactly the addresses that [`GuardedResolver`] hands it, so there is no
//! moment between check and use: a name that flips between a public and a private address is judged by
//! the answer that is used (FAULTS.md case 132). Address literals never come here; the fetcher checks
//! those before it sends.
//!
//! At most [`LOOKUPS_MAX`] look-ups run at once, each on a thread of the runtime. One that outlives its
//! deadline keeps its slot until the system answers, so hanging servers cannot pile up threads.
//! What this does not do: cache. A connection is kept alive, so a name is looked up once a connection.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::sync::Semaphore;

use super::guard::Guard;
use crate::config::Resolved;

/// Look-ups that may run at once; more wait, within their own deadline.
pub const LOOKUPS_MAX: usize = 64;
/// Addresses of one name that are used; a server that returns more has the rest ignored.
pub const ADDRESSES_MAX: usize = 16;

/// A look-up on its way.
pub type LookupFuture = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Where the addresses of a name come from. A trait so that tests can flip answers.
pub trait Lookup: Send + Sync {
    /// The addresses of `name`, in the order of preference.
    fn lookup(&self, name: &str) -> LookupFuture;
}

/// The system's resolver.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemLookup;

impl Lookup for SystemLookup {
    fn lookup(&self, name: &str) -> LookupFuture {
        let name = name.to_owned();
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// Why a name leads nowhere.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// All of its addresses are refused.
    #[error("{0}")]
    Refused(String),
    /// The look-up failed.
    #[error("the name could not be resolved: {0}")]
    Failed(#[source] io::Error),
    /// There is no address.
    #[error("the name has no address")]
    Empty,
    /// No answer in time.
    #[error("the name could not be resolved: no answer in time")]
    Timeout,
    /// All slots are taken by look-ups that hang: our own trouble.
    #[error("the name was not looked up: {LOOKUPS_MAX} look-ups are waiting for the system's resolver")]
    Saturated,
    /// The system gave no thread for the look-up: our own trouble, too.
    #[error("the name was not looked up: the system gives no thread for it")]
    Unasked,
}

/// What a refused address is told with: the setting that lets it through.
pub(super) fn refusal(what: &str, family: super::guard::Family) -> String {
    format!("{what} is a {} address, which is refused unless network.allow_private = true", family.as_str())
}

/// `network.resolve` first, then the system; refused addresses are left out.
pub struct GuardedResolver {
    fixed: BTreeMap<String, Resolved>,
    /// Names of the operator's own proxy: never refused.
    exempt: HashSet<String>,
    guard: Guard,
    lookup: Arc<dyn Lookup>,
    slots: Arc<Semaphore>,
    deadline: Duration,
}

impl GuardedResolver {
    /// A resolver that gives each look-up `deadline`. `exempt` is the host name of the configured proxy.
    pub fn new(
        fixed: &BTreeMap<String, Resolved>,
        exempt: Option<&str>,
        guard: Guard,
        lookup: Arc<dyn Lookup>,
        deadline: Duration,
    ) -> Self {
        Self {
            fixed: fixed.iter().map(|(name, target)| (normal(name), *target)).collect(),
            exempt: exempt.map(normal).into_iter().collect(),
            guard,
            lookup,
            slots: Arc::new(Semaphore::new(LOOKUPS_MAX)),
            deadline,
        }
    }

    /// The fixed target of `name`, if `network.resolve` has one.
    pub fn fixed(&self, name: &str) -> Option<Resolved> {
        if self.fixed.is_empty() { None } else { self.fixed.get(&normal(name)).copied() }
    }

    /// The addresses that may be connected to for `name`. Port 0 means the URL's own.
    pub async fn addresses(&self, name: &str) -> Result<Vec<SocketAddr>, ResolveError> {
        let found = match self.fixed(name) {
            Some(target) => vec![SocketAddr::new(target.ip, target.port.unwrap_or(0))],
            None => self.look_up(name).await?.into_iter().map(|ip| SocketAddr::new(ip, 0)).collect(),
        };
        if self.exempt.contains(&normal(name)) {
            return Ok(found);
        }
        let Some(first) = found.first().map(SocketAddr::ip) else { return Err(ResolveError::Empty) };
        let allowed: Vec<SocketAddr> =
            found.into_iter().filter(|address| self.guard.refuses(address.ip()).is_none()).collect();
        match self.guard.refuses(first) {
            Some(family) if allowed.is_empty() => {
                Err(ResolveError::Refused(refusal(&format!("{name} resolves to {first}, which"), family)))
            }
            _ => Ok(allowed),
        }
    }

    /// Asks the system, bounded in time and in number.
    async fn look_up(&self, name: &str) -> Result<Vec<IpAddr>, ResolveError> {
        let ask = async {
            let slot = Arc::clone(&self.slots).acquire_owned().await.map_err(|_| ResolveError::Saturated)?;
            let lookup = self.lookup.lookup(name);
            // A task of its own: the slot stays taken until the system has answered, also when we gave up.
            let task = tokio::spawn(async move {
                let answer = lookup.await;
                drop(slot);
                answer
            });
            match task.await {
                Ok(Ok(mut found)) => {
                    found.truncate(ADDRESSES_MAX);
                    Ok(found)
                }
                Ok(Err(error)) => Err(ResolveError::Failed(error)),
                Err(_) => Err(ResolveError::Unasked),
            }
        };
        match tokio::time::timeout(self.deadline, ask).await {
            Ok(answer) => answer,
            Err(_) if self.slots.available_permits() == 0 => Err(ResolveError::Saturated),
            Err(_) => Err(ResolveError::Timeout),
        }
    }
}

/// The client's view: shared, and every error is a [`ResolveError`].
pub(super) struct Shared(pub(super) Arc<GuardedResolver>);

impl Resolve for Shared {
    fn resolve(&self, name: Name) -> Resolving {
        let resolver = Arc::clone(&self.0);
        Box::pin(async move {
            let addresses = resolver.addresses(name.as_str()).await?;
            let addresses: Addrs = Box::new(addresses.into_iter());
            Ok(addresses)
        })
    }
}

/// Lower case, without the final dot.
fn normal(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Answers from a list, one after the other, the last one for ever.
    struct Script {
        answers: Vec<Vec<IpAddr>>,
        asked: AtomicUsize,
    }

    impl Script {
        fn new(answers: &[&[&str]]) -> Arc<Self> {
            let parse = |list: &&[&str]| list.iter().map(|text| text.parse().expect("address")).collect();
            Arc::new(Self { answers: answers.iter().map(parse).collect(), asked: AtomicUsize::new(0) })
        }
    }

    impl Lookup for Script {
        fn lookup(&self, _name: &str) -> LookupFuture {
            let turn = self.asked.fetch_add(1, Ordering::Relaxed).min(self.answers.len() - 1);
            let answer = self.answers[turn].clone();
            Box::pin(async move { Ok(answer) })
        }
    }

    /// Never answers.
    struct Silent;

    impl Lookup for Silent {
        fn lookup(&self, _name: &str) -> LookupFuture {
            Box::pin(std::future::pending())
        }
    }

    /// What the runtime does when the system gives it no thread.
    struct Threadless;

    impl Lookup for Threadless {
        fn lookup(&self, _name: &str) -> LookupFuture {
            Box::pin(async { panic!("OS can't spawn worker thread") })
        }
    }

    fn resolver(lookup: Arc<dyn Lookup>, guard: Guard) -> GuardedResolver {
        let fixed = BTreeMap::from([(
            String::from("Fixed.Example."),
            Resolved { ip: "127.0.0.9".parse().expect("address"), port: Some(8080) },
        )]);
        GuardedResolver::new(&fixed, Some("proxy.internal"), guard, lookup, Duration::from_secs(5))
    }

    #[tokio::test]
    async fn case_132_each_answer_is_judged_by_itself() {
        let script = Script::new(&[&["93.184.216.34"], &["127.0.0.1"], &["93.184.216.34"], &["169.254.169.254"]]);
        let resolver = resolver(script, Guard::PublicOnly);
        let public: SocketAddr = "93.184.216.34:0".parse().expect("address");
        assert_eq!(resolver.addresses("flip.example").await.expect("public"), [public]);
        let refused = resolver.addresses("flip.example").await.expect_err("private").to_string();
        assert!(refused.contains("network.allow_private"), "{refused}");
        assert_eq!(resolver.addresses("flip.example").await.expect("public again"), [public]);
        assert!(matches!(resolver.addresses("flip.example").await, Err(ResolveError::Refused(_))));
    }

    #[tokio::test]
    async fn case_132_refused_addresses_are_left_out_of_a_mixed_answer() {
        let script = Script::new(&[&["10.0.0.1", "::1", "93.184.216.34", "::ffff:127.0.0.1"]]);
        let found = resolver(script, Guard::PublicOnly).addresses("mixed.example").await.expect("one is public");
        assert_eq!(found, ["93.184.216.34:0".parse().expect("address")]);
    }

    #[tokio::test]
    async fn fixed_names_ask_nobody_and_are_guarded_too() {
        let script = Script::new(&[&[]]);
        let open = resolver(Arc::clone(&script) as Arc<dyn Lookup>, Guard::All);
        let fixed: SocketAddr = "127.0.0.9:8080".parse().expect("address");
        assert_eq!(open.addresses("fixed.example").await.expect("fixed"), [fixed]);
        let closed = resolver(Arc::clone(&script) as Arc<dyn Lookup>, Guard::PublicOnly);
        assert!(matches!(closed.addresses("FIXED.example.").await, Err(ResolveError::Refused(_))));
        assert_eq!(script.asked.load(Ordering::Relaxed), 0);
        assert!(matches!(open.addresses("none.example").await, Err(ResolveError::Empty)));
    }

    #[tokio::test]
    async fn the_operators_own_proxy_may_be_private() {
        let script = Script::new(&[&["10.0.0.1"]]);
        let found = resolver(script, Guard::PublicOnly).addresses("proxy.internal").await.expect("exempt");
        assert_eq!(found.len(), 1);
    }

    #[tokio::test]
    async fn row_31_no_thread_for_a_lookup_is_our_own_trouble_and_takes_no_slot() {
        let resolver = resolver(Arc::new(Threadless), Guard::All);
        for _ in 0..=LOOKUPS_MAX {
            assert!(matches!(resolver.addresses("one.example").await, Err(ResolveError::Unasked)));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn hanging_lookups_are_bounded_and_named() {
        let resolver = Arc::new(resolver(Arc::new(Silent), Guard::All));
        assert!(matches!(resolver.addresses("one.example").await, Err(ResolveError::Timeout)));
        let mut waiting = tokio::task::JoinSet::new();
        for _ in 0..LOOKUPS_MAX {
            let resolver = Arc::clone(&resolver);
            waiting.spawn(async move { resolver.addresses("more.example").await.map(|_| ()) });
        }
        while waiting.join_next().await.is_some() {}
        assert!(matches!(resolver.addresses("last.example").await, Err(ResolveError::Saturated)));
    }
}
