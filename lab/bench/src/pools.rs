//! `pools`: measures how much time a start saves if its cgroup was made in advance, and checks that
//! the cgroup's counters contain no usage of earlier containers.
//!
//! dayfly runs the same container in a cgroup of its own and in a cgroup of a pool. The pool is refilled after each
//! run, outside the measured time. So neither a start nor a delete makes a cgroup for the pool.

use crate::harness::*;
use cgroup::Hierarchies;
use cgroup::pool::{self, Size};

/// `pools`.
#[derive(Debug, Args)]
pub struct Pools {
    /// The number of rounds, and pauses.
    #[command(flatten)]
    pub timing: Timing,
    /// The memory limit of the pool's cgroups
    #[arg(long, default_value = SIZE)]
    pub size: String,
    /// Number of containers whose cgroups are examined
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub tenants: usize,
}

/// The memory limit of the pool's cgroups, unless another pool has it.
const SIZE: &str = "256M";

/// The number of cgroups in the pool.
const COUNT: usize = 4;

/// A pool, removed when dropped.
struct Pool {
    hierarchies: Hierarchies,
    size: Size,
}

impl Pool {
    fn fill(size: &str) -> Result<Self, Error> {
        let failed = |error: cgroup::Error| Error::Unfit(error.to_string());
        let (hierarchies, size) =
            (Hierarchies::detect().map_err(failed)?, Size::parse(size).map_err(failed)?);
        if pool::pools().map_err(failed)?.iter().any(|pool| pool.size == size) {
            bail!("a pool {} already exists: use another size", size.name());
        }
        let pool = Self { hierarchies, size };
        pool.fill_up()?;
        Ok(pool)
    }

    fn fill_up(&self) -> Result<(), Error> {
        let filled = pool::fill(&self.hierarchies, &self.size, COUNT);
        filled.map(drop).map_err(|error| Error::Unfit(error.to_string()))
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let _ = pool::drain(&self.hierarchies, &self.size);
    }
}

/// A container in a cgroup of the pool, and the kernel's counters of that cgroup.
#[derive(Debug, Clone, Serialize)]
struct Tenant {
    /// The path of the cgroup.
    cgroup: String,
    /// The values of each file.
    told: Vec<Told>,
}

/// A file with a counter of usage.
#[derive(Debug, Clone, Serialize)]
struct Told {
    file: &'static str,
    /// The file's value before the container's program began: init's usage, and any usage left by
    /// the previous container.
    begins: u64,
    /// The file's value after the program's end.
    ends: u64,
}

/// The minimum usage of a container's program, in bytes: far more than the usage of the container's
/// init.
const USED: u64 = 16 << 20;

/// The files that count usage, on v1 and on v2. The second string is the v1 controller; it is empty for files of v2
/// alone.
const TOLD: [(&str, &str); 8] = [
    ("memory.max_usage_in_bytes", "memory"),
    ("memory.failcnt", "memory"),
    ("cpuacct.usage", "cpuacct"),
    ("memory.peak", ""),
    ("memory.events", ""),
    ("memory.swap.peak", ""),
    ("pids.events", "pids"),
    ("cpu.stat", ""),
];

impl Experiment for Pools {
    fn prepare(&mut self, common: &mut Common) -> Result<(), Error> {
        // The first size from the default one on of which the host has no pool.
        if self.size == SIZE {
            let taken = pool::pools().unwrap_or_default();
            let is_free = |size: &String| taken.iter().all(|pool| pool.size.name() != *size);
            self.size = (256..).map(|mib| format!("{mib}M")).find(is_free).unwrap_or_default();
        }
        // Pools require a memory controller.
        match common.view {
            None if !can_limit("memory") => View::leave(),
            _ => Ok(()),
        }
    }

    /// Returns two entrants: dayfly with cgroups from the pool, and with new cgroups.
    fn entrants(&self, common: &Common) -> Result<Vec<Entrant>, Error> {
        let own = Entrant { name: "made anew".to_owned(), ..Entrant::new(own(common)?) };
        let start_options = vec!["--pool".to_owned(), self.size.clone()];
        let pooled = own.called(format!("from the pool {}", self.size));
        Ok(vec![Entrant { start_options, ..pooled }, own])
    }

    fn measure(&self, stand: &Stand, entrants: &[Entrant]) -> Result<Outcome, Error> {
        let pool = Pool::fill(&self.size)?;
        let mut series = Vec::new();
        for operation in [Operation::Lifecycle, Operation::Run] {
            for rounds in self.timing.by_pause() {
                series.extend(race(stand, entrants, operation, rounds, || pool.fill_up())?);
            }
        }
        let mut tenants = Vec::new();
        if let Some(pooled) = entrants.first().filter(|entrant| !entrant.is_out()) {
            for _ in 0..self.tenants {
                tenants.extend(tenant(stand, pooled)?);
                pool.fill_up()?;
            }
        }
        if let Some(leak) = leak(&tenants) {
            bail!("accounting leaks between tenants: {leak}");
        }
        let outcome = Outcome::of_series(&series, first(entrants), &[told(&tenants)])?;
        outcome.with("tenants", &tenants)
    }
}

/// Examines the cgroup of a created container before its start, and again after its program, which uses memory and CPU
/// time, has ended.
fn tenant(stand: &Stand, entrant: &Entrant) -> Result<Option<Tenant>, Error> {
    // Doubles a string until it is 16 MiB long.
    let hungry = "x=x; i=0; while [ $i -lt 24 ]; do x=$x$x; i=$((i+1)); done";
    let container = Container::new(stand, entrant, &["/bin/sh", "-c", hungry])?;
    container.create()?;
    let Some(pid) = container.pid() else { return Ok(None) };
    let file = PathBuf::from(format!("/proc/{}/cgroup", pid.as_raw_nonzero()));
    let text = fs::read_to_string(&file).map_err(Error::at("read", &file))?;
    let is_it = |path: &&str| path.starts_with("/dayfly-tiers/");
    let mut paths = text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let Some(cgroup) = paths.find(is_it) else { return Ok(None) };
    let begins = look(cgroup);
    container.start()?;
    container.exit()?;
    let ends = look(cgroup);
    let both = begins.into_iter().zip(ends);
    let told = both.map(|((file, begins), (_, ends))| Told { file, begins, ends }).collect();
    Ok(Some(Tenant { cgroup: cgroup.to_owned(), told }))
}

/// Returns the values in a cgroup's files of counters.
fn look(cgroup: &str) -> Vec<(&'static str, u64)> {
    let read = |&(name, controller): &(&'static str, &str)| {
        let places =
            [format!("/sys/fs/cgroup/{controller}{cgroup}"), format!("/sys/fs/cgroup{cgroup}")];
        let text =
            places.iter().find_map(|place| fs::read_to_string(format!("{place}/{name}")).ok());
        Some((name, sum(name, &text?)))
    };
    TOLD.iter().filter_map(read).collect()
}

/// Returns the number in a file, or the sum of all numbers in it; the sum is zero only if all the numbers are zero. For
/// cpu.stat, returns only the CPU time.
fn sum(file: &str, text: &str) -> u64 {
    let lines = text.lines().take(if file == "cpu.stat" { 1 } else { usize::MAX });
    lines.flat_map(str::split_whitespace).filter_map(|word| word.parse::<u64>().ok()).sum()
}

/// Returns a description of the usage by an earlier container that a cgroup's counters contain, or the reason why this
/// cannot be determined; `None` if there is no such usage.
fn leak(tenants: &[Tenant]) -> Option<String> {
    for (at, tenant) in tenants.iter().enumerate() {
        let cgroup = &tenant.cgroup;
        if tenants[..at].iter().any(|other| other.cgroup == *cgroup) {
            return Some(format!("{cgroup} had two of them"));
        }
        for Told { file, begins, ends } in &tenant.told {
            let (most, least) = match *file {
                "memory.max_usage_in_bytes" | "memory.peak" => (USED, USED),
                "cpuacct.usage" | "cpu.stat" => (*ends, 1),
                // Events and swap must be zero at the start.
                _ => (1, 0),
            };
            if begins >= &most {
                return Some(format!("{cgroup} begins with {begins} in {file}"));
            }
            if ends < &least {
                return Some(format!("can't be told: {cgroup} ends with {ends} in {file}"));
            }
        }
    }
    None
}

fn told(tenants: &[Tenant]) -> String {
    let told = tenants.iter().flat_map(|of| of.told.iter().map(move |told| (&of.cgroup, told)));
    let table = Table::of(
        told,
        &[
            ("tenant's cgroup", &|(cgroup, _)| (*cgroup).clone()),
            ("file", &|(_, told)| told.file.to_owned()),
            ("when it begins", &|(_, told)| told.begins.to_string()),
            ("when it ends", &|(_, told)| told.ends.to_string()),
        ],
    );
    format!(
        "{}, each in a cgroup that had none before: they begin with what their own init has used, no event, \
         and nothing of the 16 MiB and more that the one before has used\n{}",
        counted(tenants.len(), "tenant"),
        table.left(&[0, 1])
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(cgroup: &str, told: &[(&'static str, u64, u64)]) -> Tenant {
        let told = told.iter().map(|&(file, begins, ends)| Told { file, begins, ends }).collect();
        Tenant { cgroup: cgroup.to_owned(), told }
    }

    #[test]
    fn leaks() {
        let of = |tenants: &[Tenant]| leak(tenants);
        let good = [("memory.peak", 5000, USED + 1), ("memory.events", 0, 3), ("cpu.stat", 4, 900)];
        assert_eq!(of(&[tenant("a", &good), tenant("b", &good)]), None);
        assert!(of(&[tenant("a", &good), tenant("a", &good)]).unwrap().contains("had two"));
        let peak = of(&[tenant("a", &[("memory.peak", USED + 1, USED + 2)])]).unwrap();
        assert_eq!(peak, "a begins with 16777217 in memory.peak");
        assert!(of(&[tenant("a", &[("memory.failcnt", 1, 1)])]).is_some());
        assert!(of(&[tenant("a", &[("cpuacct.usage", 9, 9)])]).is_some());
        let idle = of(&[tenant("a", &[("memory.peak", 5, 6)])]).unwrap();
        assert!(idle.starts_with("can't be told"), "{idle}");
    }

    #[test]
    fn numbers() {
        assert_eq!(sum("memory.peak", "4096\n"), 4096);
        assert_eq!(sum("memory.events", "low 0\nhigh 2\nmax 3\n"), 5);
        assert_eq!(sum("cpu.stat", "usage_usec 7\nuser_usec 4\n"), 7);
    }
}
