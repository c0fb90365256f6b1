//! The uses of groups, and the states that each use goes through.

use super::ground::{ALL, Ground};
use super::instance::{Data, Instance, Member, Tick, p99, per_cpu_s, rates};
use super::work::TOUCHED;
use super::{Curve, Groups, Row, Shown, Use};
use crate::harness::*;
use crate::held::field;

/// The time that instances need to reach their full speed, and that a change needs to take effect.
const SETTLE: Duration = Duration::from_millis(300);

/// The number of words that a transaction of 1 ms and more touches.
const LONG_TRANSACTION: usize = 2048 * TOUCHED;

/// The duration from which on a picture shows the end of a change, too.
const LONG: Duration = Duration::from_secs(1);

/// The parent group, the options and the properties of the host that all uses share.
pub(super) struct Site<'a> {
    pub ground: &'a Ground,
    pub options: &'a Groups,
    pub cpus: usize,
    pub nodes: usize,
    /// Whether there is enough swap for the memory that exceeds an instance's limit.
    pub has_swap: bool,
}

impl Site<'_> {
    /// Runs through the states of a use.
    ///
    /// # Errors
    /// Those of groups and instances; an interrupt.
    pub(super) fn show(&self, of: Use, shown: &mut Shown) -> Result<(), Error> {
        match of {
            Use::Consolidation => self.consolidation(shown),
            Use::Pinning => self.pinning(shown),
            Use::Scaling => self.scaling(shown),
            Use::Swap => self.swap(shown),
            Use::Isolation => self.isolation(shown),
            Use::Rogue => self.rogue(shown),
        }
    }

    fn consolidation(&self, shown: &mut Shown) -> Result<(), Error> {
        let parts = [("instance 1", 2), ("instance 2", 4), ("instance 3", 8), ("instance 4", 14)];
        let names = parts.map(|(name, _)| name);
        self.state(shown, Use::Consolidation, "unrestricted", &self.members(&names, false))?;
        if self.cpus < 28 {
            let cpus = self.cpus;
            shown.note(format!(
                "{cpus} CPUs here: parts of their time represent 2, 4, 8 and 14 CPUs"
            ));
        }
        let mut from = 0;
        for (name, part) in parts {
            self.ground.create(name)?;
            if self.cpus >= 28 {
                self.ground.pin(name, &format!("{from}-{}", from + part - 1))?;
                from += part;
            } else {
                self.ground.limit_cpus(name, (self.cpus * part) as f64 / 28.0)?;
            }
        }
        self.state(shown, Use::Consolidation, "controlled", &self.members(&names, true))?;
        self.remove(&names)?;
        shown.changes(Use::Consolidation, "unrestricted", "controlled");
        Ok(())
    }

    fn pinning(&self, shown: &mut Shown) -> Result<(), Error> {
        let places = if self.nodes >= 2 { self.nodes } else { self.cpus.clamp(1, 4) };
        let names: Vec<String> = (1..=places).map(|number| format!("instance {number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let all = self.options.threads * places;
        self.state(shown, Use::Pinning, "one instance", &[(ALL, "one instance", all)])?;
        self.state(shown, Use::Pinning, "side by side", &self.members(&names, false))?;
        for (place, name) in names.iter().enumerate() {
            self.ground.create(name)?;
            match self.nodes >= 2 {
                true => self.ground.pin_to_node(name, place)?,
                false => self.ground.pin(name, &place.to_string())?,
            }
        }
        if self.nodes < 2 {
            shown.note("one memory node here: each instance is pinned to a CPU, its memory is as near as before");
        }
        self.state(shown, Use::Pinning, "pinned", &self.members(&names, true))?;
        self.remove(&names)?;
        shown.changes(Use::Pinning, "side by side", "pinned");
        Ok(())
    }

    fn scaling(&self, shown: &mut Shown) -> Result<(), Error> {
        if self.cpus < 8 {
            shown.note(format!(
                "{} here: quarters of their time represent 2, 4, 6 and 8 CPUs",
                counted(self.cpus, "CPU")
            ));
        }
        for quarter in 1..=4 {
            self.ground.create("instance")?;
            let state = if self.cpus >= 8 {
                self.ground.pin("instance", &format!("0-{}", 2 * quarter - 1))?;
                format!("{} CPUs", 2 * quarter)
            } else {
                let cpus = (self.cpus * quarter) as f64 / 4.0;
                self.ground.limit_cpus("instance", cpus)?;
                counted(cpus, "CPU")
            };
            let threads = self.options.threads.max(self.cpus.min(8));
            self.state(shown, Use::Scaling, &state, &[("instance", "instance", threads)])?;
            self.ground.remove("instance")?;
        }
        Ok(())
    }

    fn swap(&self, shown: &mut Shown) -> Result<(), Error> {
        if self.cpus < 2 {
            shown.note("only one CPU here: no CPUs to exchange");
            return Ok(());
        }
        let mut names = vec!["instance 1", "instance 2"];
        if self.cpus < 6 {
            names.push("neighbour");
            shown.note(
                "instance 2 has a CPU, instance 1 a quarter of another one, which a neighbour has the rest of: then they \
                 exchange",
            );
        }
        for name in &names {
            self.ground.create(name)?;
        }
        if self.cpus >= 6 {
            let few = (self.cpus / 9).max(1);
            self.ground.pin("instance 1", &format!("0-{}", few - 1))?;
            self.ground.pin("instance 2", &format!("{few}-{}", self.cpus - 1))?;
        } else {
            self.ground.pin("instance 1", "0")?;
            self.ground.pin("neighbour", "0")?;
            self.ground.pin("instance 2", "1")?;
            self.ground.set("neighbour", "cpu.weight=300")?;
        }
        let instances = self.start(&self.members(&names, true), Data::Memory, TOUCHED)?;
        let change = |_: &[Instance]| self.ground.swap("instance 1", "instance 2");
        let told = self.changed(instances, change, &mut |_| {})?;
        told.add_to(shown, Use::Swap, ["before", "after"]);
        self.remove(&names)?;
        shown.changes(Use::Swap, "before", "after");
        Ok(())
    }

    fn isolation(&self, shown: &mut Shown) -> Result<(), Error> {
        let names: Vec<String> = std::iter::once("held".to_owned())
            .chain((1..self.cpus.clamp(2, 4)).map(|number| format!("neighbour {number}")))
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        for (place, name) in names.iter().enumerate() {
            self.ground.create(name)?;
            match self.nodes >= names.len() {
                true => self.ground.pin_to_node(name, place)?,
                false if place < self.cpus => self.ground.pin(name, &place.to_string())?,
                false => {}
            }
        }
        let data = if self.has_swap { Data::Memory } else { Data::File };
        if data == Data::File {
            shown.note(
                "no swap here: instances work on files, which the kernel caches as memory \
                 permits; the held one must read pages again, the others' files are in memory",
            );
        }
        // The neighbours have no use of the disk or the swap device that the held one waits for.
        let beside = if data == Data::File { Data::MemoryFile } else { data };
        let members = self.members(&names, true);
        let mut instances = self.start(&members[..1], data, TOUCHED)?;
        instances.extend(self.start(&members[1..], beside, TOUCHED)?);
        let limit = self.options.memory / 4;
        let lower = || {
            // The limit is lowered in steps, because the kernel gives up if it has to reclaim too much at once.
            for part in [3, 2, 1] {
                let _ = self.ground.set("held", &format!("memory.max={}M", limit * part));
            }
            self.ground.set("held", &format!("memory.max={limit}M"))
        };
        let change = |instances: &[Instance]| match instances.first() {
            Some(held) => held.stopped(lower),
            None => Ok(()),
        };
        let names_of = [
            "free memory, MiB",
            "charged to the held one, MiB",
            "swapped in, MiB",
            "swapped out, MiB",
        ];
        let mut curves = names_of.map(|name| Curve {
            of: Use::Isolation,
            name: name.to_owned(),
            unit: "MiB",
            points: Vec::new(),
        });
        let swapped = || {
            [vmstat("pswpin"), vmstat("pswpout")].map(|pages| pages * 4096.0 / f64::from(1 << 20))
        };
        let before = swapped();
        let told = self.changed(instances, change, &mut |at| {
            let now = swapped();
            let figures = [
                memory_mib("MemFree:"),
                self.ground.used_mib("held"),
                now[0] - before[0],
                now[1] - before[1],
            ];
            for (curve, figure) in curves.iter_mut().zip(figures) {
                curve.points.push((at, figure));
            }
        })?;
        shown.note(format!("the held one is left {limit} of some {} MiB", self.options.memory));
        told.add_to(shown, Use::Isolation, ["regular", "throttled"]);
        let points = curves.iter_mut().flat_map(|curve| &mut curve.points);
        points.for_each(|(at, _)| *at = (*at - told.begin) / 1e3);
        shown.curves.extend(curves);
        self.remove(&names)?;
        shown.changes(Use::Isolation, "regular", "throttled");
        Ok(())
    }

    fn rogue(&self, shown: &mut Shown) -> Result<(), Error> {
        let threads = self.cpus.clamp(1, self.options.threads);
        let neighbour = |group| (group, "neighbour", threads);
        let rogue = |group| (group, "rogue", 8 * self.cpus);
        self.state(shown, Use::Rogue, "alone", &[neighbour(ALL)])?;
        self.state(shown, Use::Rogue, "beside a rogue", &[neighbour(ALL), rogue(ALL)])?;
        for name in ["neighbour", "rogue"] {
            self.ground.create(name)?;
        }
        self.ground.limit_cpus("rogue", self.cpus as f64 / 10.0)?;
        self.ground.set("neighbour", "cpu.weight=1000")?;
        let both = [neighbour("neighbour"), rogue("rogue")];
        self.state(shown, Use::Rogue, "beside a limited rogue", &both)?;
        self.remove(&["neighbour", "rogue"])
    }

    /// Returns instances with these names, each in the existing group with its name if `apart`, or else all in one group.
    fn members<'a>(&self, names: &[&'a str], apart: bool) -> Vec<Member<'a>> {
        let group = |name| if apart { name } else { ALL };
        names.iter().map(|name| (group(*name), *name, self.options.threads)).collect()
    }

    fn start(
        &self,
        members: &[Member<'_>],
        data: Data,
        touched: usize,
    ) -> Result<Vec<Instance>, Error> {
        let one = |member: &Member<'_>| {
            interrupt::check()?;
            Instance::start(self.ground, self.options, *member, data, touched)
        };
        members.iter().map(one).collect()
    }

    /// Lets instances work for the duration of one state (`--phase`), ends them, and adds a row for each instance.
    fn state(
        &self,
        shown: &mut Shown,
        of: Use,
        state: &str,
        members: &[Member<'_>],
    ) -> Result<(), Error> {
        // Of short transactions, fewer than one in a hundred would meet a rogue's turn at the CPU.
        let touched = if of == Use::Rogue { LONG_TRANSACTION } else { TOUCHED };
        let mut instances = self.start(members, Data::Memory, touched)?;
        for instance in &mut instances {
            instance.go()?;
        }
        let begin = now_ms();
        pause(SETTLE + self.options.phase, &mut || {})?;
        let end = now_ms();
        let from = begin + SETTLE.as_secs_f64() * 1e3;
        for instance in instances {
            let name = instance.name.clone();
            shown.rows.push(row(of, state, &name, &instance.end(), from, end));
        }
        Ok(())
    }

    /// Lets instances work for a phase, makes a change, and lets the instances work for another phase. Watches all three.
    fn changed(
        &self,
        mut instances: Vec<Instance>,
        change: impl FnOnce(&[Instance]) -> Result<(), Error> + Send,
        watch: &mut dyn FnMut(f64),
    ) -> Result<Changed, Error> {
        for instance in &mut instances {
            instance.go()?;
        }
        let begin = now_ms();
        pause(SETTLE + self.options.phase, &mut || watch(now_ms()))?;
        let changing = now_ms();
        let changed = thread::scope(|scope| {
            let change = scope.spawn(|| change(&instances).map(|()| now_ms()));
            while !change.is_finished() {
                watch(now_ms());
                thread::sleep(Duration::from_millis(100));
            }
            change.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        pause(SETTLE + self.options.phase, &mut || watch(now_ms()))?;
        let end = now_ms();
        let told =
            instances.into_iter().map(|instance| (instance.name.clone(), instance.end())).collect();
        Ok(Changed { told, begin, changing, changed, end })
    }

    fn remove(&self, names: &[&str]) -> Result<(), Error> {
        names.iter().try_for_each(|name| self.ground.remove(name))
    }
}

/// The instances' reports before and after a change; times in ms since 1970.
struct Changed {
    told: Vec<(String, Vec<Tick>)>,
    begin: f64,
    changing: f64,
    changed: f64,
    end: f64,
}

impl Changed {
    fn add_to(&self, shown: &mut Shown, of: Use, [before, after]: [&str; 2]) {
        let settle = SETTLE.as_secs_f64() * 1e3;
        for (name, ticks) in &self.told {
            shown.rows.push(row(of, before, name, ticks, self.begin + settle, self.changing));
            shown.rows.push(row(of, after, name, ticks, self.changed + settle, self.end));
            // The last interval is omitted, because it ended early, at the end of the phase.
            let whole = ticks.windows(2).filter(|both| both[1].at_ms <= self.end);
            let points = whole.map(|both| {
                let rate = both[1].count / (both[1].at_ms - both[0].at_ms).max(1.0) * 1e3;
                ((both[1].at_ms - self.begin) / 1e3, rate)
            });
            let points = points.collect();
            shown.curves.push(Curve { of, name: name.clone(), unit: "transactions/s", points });
        }
        let at = |ms: f64| (ms - self.begin) / 1e3;
        shown.marks.push((of, at(self.changing), "the change begins"));
        if self.changed - self.changing > LONG.as_secs_f64() * 1e3 {
            shown.marks.push((of, at(self.changed), "the change is done"));
        }
        shown.note(format!("the change took {:.0} ms", self.changed - self.changing));
    }
}

fn row(of: Use, state: &str, instance: &str, ticks: &[Tick], from: f64, to: f64) -> Row {
    Row {
        of,
        state: state.to_owned(),
        instance: instance.to_owned(),
        rates: rates(ticks, from, to),
        p99_us: p99(ticks, from, to),
        per_cpu_s: per_cpu_s(ticks, from, to),
    }
}

fn now_ms() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64() * 1e3
}

/// Returns a figure of /proc/meminfo in MiB.
pub(super) fn memory_mib(name: &str) -> f64 {
    field(&fs::read_to_string("/proc/meminfo").unwrap_or_default(), name) / 1024.0
}

/// Returns a counter of /proc/vmstat.
fn vmstat(name: &str) -> f64 {
    field(&fs::read_to_string("/proc/vmstat").unwrap_or_default(), name)
}
