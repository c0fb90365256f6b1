//! Translates the names in `process.scheduler`, `process.ioPriority` and `linux.personality` to the kernel's numbers.

use crate::invalid::{Invalid, invalid};
use crate::linux::Personality;
use crate::number_set::NumberSet;
use crate::process::{CpuAffinity, IoPriority, Process, Scheduler};

/// Policies of sched(7).
pub const POLICIES: [(&str, u32); 7] = [
    ("SCHED_OTHER", 0),
    ("SCHED_FIFO", 1),
    ("SCHED_RR", 2),
    ("SCHED_BATCH", 3),
    ("SCHED_ISO", 4),
    ("SCHED_IDLE", 5),
    ("SCHED_DEADLINE", 6),
];

/// The flag that keeps the current scheduling parameters.
const KEEP_PARAMS: &str = "SCHED_FLAG_KEEP_PARAMS";

/// Flags of sched_setattr(2).
const FLAGS: [(&str, u64); 7] = [
    ("SCHED_FLAG_RESET_ON_FORK", 0x01),
    ("SCHED_FLAG_RECLAIM", 0x02),
    ("SCHED_FLAG_DL_OVERRUN", 0x04),
    ("SCHED_FLAG_KEEP_POLICY", 0x08),
    (KEEP_PARAMS, 0x10),
    ("SCHED_FLAG_UTIL_CLAMP_MIN", 0x20),
    ("SCHED_FLAG_UTIL_CLAMP_MAX", 0x40),
];

/// Classes of ioprio_set(2).
pub const IO_CLASSES: [(&str, u16); 3] =
    [("IOPRIO_CLASS_RT", 1), ("IOPRIO_CLASS_BE", 2), ("IOPRIO_CLASS_IDLE", 3)];

/// Domains of personality(2).
pub const DOMAINS: [(&str, u32); 2] = [("LINUX", 0), ("LINUX32", 8)];

/// Returns the value for `word` in a table of words and values.
pub(crate) fn value<T: Copy>(table: &[(&str, T)], word: &str) -> Option<T> {
    table.iter().find(|(known, _)| *known == word).map(|(_, value)| *value)
}

impl Scheduler<'_> {
    /// Returns the number of the policy.
    ///
    /// # Errors
    /// A missing or unknown policy.
    pub fn policy_number(&self) -> Result<u32, Invalid> {
        let policy = &self.policy;
        let unknown = || match policy.is_empty() {
            true => invalid!("scheduler policy is required"),
            false => invalid!("invalid scheduler policy: {policy}"),
        };
        value(&POLICIES, &self.policy).ok_or_else(unknown)
    }

    /// Returns the bits of the flags.
    ///
    /// # Errors
    /// An unknown flag.
    pub fn flag_bits(&self) -> Result<u64, Invalid> {
        self.flags.iter().try_fold(0, |bits, flag| {
            let unknown = || invalid!("invalid scheduler flag: {flag}");
            Ok(bits | value(&FLAGS, flag).ok_or_else(unknown)?)
        })
    }

    /// Checks the policy by runc's rules. The kernel later checks the ranges of priorities and times.
    fn validate(&self) -> Result<(), Invalid> {
        self.policy_number()?;
        self.flag_bits()?;
        let policy = self.policy.as_str();
        if matches!(policy, "SCHED_OTHER" | "SCHED_BATCH") && !(-20..=19).contains(&self.nice) {
            let nice = self.nice;
            return Err(invalid!(
                "invalid scheduler.nice: {nice} when scheduler.policy is {policy}"
            ));
        }
        if self.priority != 0 && !matches!(policy, "SCHED_FIFO" | "SCHED_RR") {
            return Err(invalid!(
                "scheduler.priority can only be specified for SchedFIFO or SchedRR policy"
            ));
        }
        let timed = self.runtime != 0 || self.deadline != 0 || self.period != 0;
        if timed && policy != "SCHED_DEADLINE" {
            return Err(invalid!(
                "scheduler runtime/deadline/period can only be specified for SchedDeadline policy"
            ));
        }
        let Self { runtime, deadline, period, .. } = *self;
        // A period of 0 means that the period is the deadline. The kernel later checks the minimum runtime, and the
        // total of all SCHED_DEADLINE tasks on the host.
        let possible = runtime != 0 && runtime <= deadline && (period == 0 || deadline <= period);
        let keeps = self.flags.iter().any(|flag| flag.as_str() == KEEP_PARAMS);
        if policy == "SCHED_DEADLINE" && !possible && !keeps {
            return Err(invalid!(
                "sched_setattr: SCHED_DEADLINE takes 0 < runtime <= deadline <= period, in nanoseconds, and \
                 was given runtime {runtime}, deadline {deadline}, period {period}: invalid argument"
            ));
        }
        Ok(())
    }
}

impl IoPriority<'_> {
    /// Returns class and level in the encoding of ioprio_set(2).
    ///
    /// # Errors
    /// The class is unknown, or the level is outside 0 to 7.
    pub fn number(&self) -> Result<u16, Invalid> {
        let level = u16::try_from(self.priority).ok().filter(|level| *level <= 7);
        let invalid = || invalid!("invalid ioPriority.Priority: {}", self.priority);
        let level = level.ok_or_else(invalid)?;
        let unknown = || invalid!("invalid ioPriority.Class: {:?}", self.class);
        Ok(value(&IO_CLASSES, &self.class).ok_or_else(unknown)? << 13 | level)
    }
}

impl Personality<'_> {
    /// Returns the number of the domain.
    ///
    /// # Errors
    /// The domain is unknown, or `flags` is not empty (the specification defines no flags).
    pub fn number(&self) -> Result<u32, Invalid> {
        if let Some(flag) = self.flags.first() {
            return Err(invalid!(
                "linux.personality: flag {flag:?} is not supported, nor is any other"
            ));
        }
        let unknown = || invalid!("invalid personality domain {}", self.domain);
        value(&DOMAINS, &self.domain).ok_or_else(unknown)
    }
}

impl CpuAffinity<'_> {
    /// Returns the CPUs to set before the process enters the container's cgroup, and the CPUs to set afterwards. `None`
    /// means that dayfly sets none.
    ///
    /// # Errors
    /// A text that is not a list of CPUs.
    pub fn sets(&self) -> Result<[Option<NumberSet>; 2], Invalid> {
        let set = |name, text: &Option<crate::Str<'_>>| {
            let set = NumberSet::parse(text.as_deref().unwrap_or_default());
            let set = set.map_err(|error| invalid!("bad CPUAffinity.{name}: {error}"))?;
            Ok((!set.is_empty()).then_some(set))
        };
        Ok([set("Initial", &self.initial)?, set("Final", &self.settled)?])
    }
}

/// Validates the scheduling of a process.
pub(crate) fn validate(process: &Process<'_>) -> Result<(), Invalid> {
    if let Some(scheduler) = &process.scheduler {
        scheduler.validate()?;
    }
    if let Some(priority) = &process.io_priority {
        priority.number()?;
    }
    if let Some(affinity) = &process.exec_cpu_affinity {
        affinity.sets()?;
    }
    Ok(())
}
