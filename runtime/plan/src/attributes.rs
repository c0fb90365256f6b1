//! Scheduling, memory policy and execution domain of a process.

use alloc::boxed::Box;
use serde::{Deserialize, Serialize};
use spec::{Linux, NumberSet, Process};
use sys::sched::Attributes;

use crate::builder::Builder;
use crate::step::InitStep;
use crate::{Error, keep};

/// The settings of `linux` that apply to every process of a container, including those of `exec`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Execution {
    /// Execution domain, in the numbering of personality(2).
    pub personality: Option<u32>,
    /// Mode and nodes for set_mempolicy(2).
    pub memory_policy: Option<(u32, Box<NumberSet>)>,
}

impl Execution {
    /// Reads the settings from the configuration.
    ///
    /// # Errors
    /// Fails for a domain, flag, mode or node list that is invalid.
    pub fn of(linux: &Linux<'_>) -> Result<Self, Error> {
        let personality = linux.personality.as_ref().map(spec::Personality::number).transpose()?;
        let memory_policy = match &linux.memory_policy {
            Some(policy) => Some((policy.number()?, Box::new(policy.node_set()?))),
            None => None,
        };
        Ok(Self { personality, memory_policy })
    }
}

/// Adds steps that set these attributes while the process is still root (`privileged-before-user`): real-time policies
/// require CAP_SYS_NICE.
pub fn compile(
    builder: &mut Builder,
    process: &Process<'_>,
    execution: &Execution,
) -> Result<(), Error> {
    if let Some(scheduler) = &process.scheduler {
        builder.init(InitStep::SetScheduler(Attributes {
            policy: scheduler.policy_number()?,
            flags: scheduler.flag_bits()?,
            nice: scheduler.nice,
            priority: scheduler.priority.cast_unsigned(),
            runtime: scheduler.runtime,
            deadline: scheduler.deadline,
            period: scheduler.period,
        }));
    }
    if let Some(priority) = &process.io_priority {
        builder.init(InitStep::SetIoPriority(priority.number()?));
    }
    if let Some(domain) = execution.personality {
        builder.init(InitStep::SetPersonality(domain));
    }
    if let Some((mode, nodes)) = &execution.memory_policy {
        builder.init(InitStep::SetMemoryPolicy { mode: *mode, nodes: keep::one(*nodes.words()) });
    }
    Ok(())
}
