//! `tiers`: what a cgroup that was made ahead saves, and that its tenants begin with nothing used.
//!
//! The same containers of dayfly's, in cgroups of their own and in those of a pool. What a pool takes
//! off a start it pays when the container is deleted, where the next cgroup is made.

use crate::Error;
use crate::container::Container;
use crate::options::Tiers;
use crate::race::{Operation, Rounds, race};
use crate::report::{self, Table, compare};
use crate::runtime::Runtime;
use crate::session::Outcome;
use crate::stand::{Entrant, Stand};
use cgroup::Host;
use cgroup::tier::{self, Size};
use serde::Serialize;
use std::fs;
use std::path::PathBuf;

/// Cgroups that wait; each start takes one, and its end makes another.
const COUNT: usize = 4;

/// A pool for as long as the experiment takes.
struct Pool {
    host: Host,
    size: Size,
}

impl Pool {
    fn fill(size: &str) -> Result<Self, Error> {
        let failed = |error: cgroup::Error| Error::Unfit(error.to_string());
        let (host, size) = (Host::detect().map_err(failed)?, Size::parse(size).map_err(failed)?);
        if tier::pools().map_err(failed)?.iter().any(|pool| pool.size == size) {
            let reason = format!("there is a pool {} already: give another size", size.name());
            return Err(Error::Unfit(reason));
        }
        let pool = Self { host, size };
        tier::fill(&pool.host, &pool.size, COUNT).map_err(failed)?;
        Ok(pool)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let _ = tier::drain(&self.host, &self.size);
    }
}

/// What a tenant finds when it begins.
#[derive(Debug, Clone, Serialize)]
struct Tenant {
    /// Its cgroup.
    cgroup: String,
    /// What each file says.
    found: Vec<(&'static str, String)>,
}

/// The files that tell of former use, of v1 and of v2.
const TOLD: [&str; 7] = [
    "memory.usage_in_bytes",
    "memory.max_usage_in_bytes",
    "memory.failcnt",
    "memory.current",
    "memory.peak",
    "memory.events",
    "pids.peak",
];

/// dayfly with cgroups of each container's own, and from the pool.
#[must_use]
pub fn entrants(runtime: &Runtime, size: &str) -> Vec<Entrant> {
    let own = Entrant { name: "made anew".to_owned(), ..Entrant::new(runtime.clone()) };
    let pooled = Entrant {
        name: format!("from the pool {size}"),
        start_options: vec!["--tier".to_owned(), size.to_owned()],
        ..Entrant::new(runtime.clone())
    };
    vec![pooled, own]
}

/// The experiment.
///
/// # Errors
/// Only the harness's own; an interrupt.
pub fn experiment(
    options: &Tiers,
    stand: &Stand,
    entrants: &mut [Entrant],
) -> Result<Outcome, Error> {
    let _pool = Pool::fill(&options.size)?;
    let timing = &options.timing;
    let mut series = Vec::new();
    for operation in [Operation::Lifecycle, Operation::Run] {
        for &pause in &timing.pause {
            let rounds = Rounds { warm_up: timing.warm_up, timed: timing.rounds, pause };
            series.extend(race(stand, entrants, operation, rounds)?);
        }
    }
    let first = entrants.first().map_or("", |entrant| &entrant.name);
    let rows = compare(&series, first);
    let mut tenants = Vec::new();
    if let Some(pooled) = entrants.first().filter(|entrant| entrant.failure.is_none()) {
        for _ in 0..options.tenants {
            tenants.extend(tenant(stand, pooled)?);
        }
    }
    let text = [report::times(&rows, first), report::verdicts(&rows, first), told(&tenants)];
    Ok(Outcome {
        text: text.join("\n"),
        json: vec![("rows", report::value(&rows)?), ("tenants", report::value(&tenants)?)],
        csv: report::csv(&series),
        ..Outcome::default()
    })
}

/// Looks at the cgroup of a container that was made and has not begun; then has it use memory.
fn tenant(stand: &Stand, entrant: &Entrant) -> Result<Option<Tenant>, Error> {
    // Doubles a text until it is 16 MiB long.
    let hungry = "x=x; i=0; while [ $i -lt 24 ]; do x=$x$x; i=$((i+1)); done";
    let container = Container::new(stand, entrant, &["/bin/sh", "-c", hungry])?;
    container.create().map_err(|fault| Error::Unfit(fault.to_string()))?;
    let Some(pid) = container.pid() else { return Ok(None) };
    let file = PathBuf::from(format!("/proc/{}/cgroup", pid.as_raw_nonzero()));
    let text = fs::read_to_string(&file).map_err(Error::at("read", &file))?;
    let is_it = |path: &&str| path.starts_with("/dayfly-tiers/");
    let mut paths = text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let Some(path) = paths.find(is_it) else { return Ok(None) };
    let mut found = Vec::new();
    for name in TOLD {
        for top in ["", "memory/", "pids/", "unified/"] {
            let file = format!("/sys/fs/cgroup/{top}{}/{name}", path.trim_start_matches('/'));
            if let Ok(text) = fs::read_to_string(file) {
                found.push((name, text.trim_end().replace('\n', ", ")));
                break;
            }
        }
    }
    let _ = container.start();
    Ok(Some(Tenant { cgroup: path.to_owned(), found }))
}

fn told(tenants: &[Tenant]) -> String {
    let mut table = Table::new(&["tenant's cgroup", "file", "when it begins"]).left(&[0, 1, 2]);
    for tenant in tenants {
        for (name, value) in &tenant.found {
            table.row(vec![tenant.cgroup.clone(), (*name).to_owned(), value.clone()]);
        }
    }
    format!("What tenants find: init's own memory, and nothing of the tenant before\n{table}")
}
