//! Places a container by dayfly's own options and annotations: on CPUs chosen by topology, or in a cgroup that a pool
//! created in advance.

use alloc::string::ToString;
use cgroup::Hierarchies;
use cgroup::pool::{self, Size};
use spec::Spec;
use spec::resources::{Cpu, Memory};
use topology::pin::{Pin, PinError};
use topology::{List, Topology};

use crate::annotations::{PIN, POOL};
use crate::create_context::CreateContext;
use crate::options::Purpose;
use crate::{CgroupDriver, Error};

/// Returns the value of the option, or, if the option was not given, the value of the annotation.
fn asked<'s>(option: Option<&'s str>, spec: &'s Spec<'_>, names: &[&str]) -> Option<&'s str> {
    let annotation = |name: &&str| spec.annotations.get(*name).map(|value| &**value);
    option.or_else(|| names.iter().find_map(annotation))
}

/// Converts words such as `node:0` to CPUs and memory nodes, and sets these in the configuration. If the configuration
/// already lists CPUs, only CPUs of this list are chosen; memory nodes that the configuration lists stay unchanged.
///
/// # Errors
/// If the words are invalid, or if they select CPUs that do not exist.
pub(crate) fn pin(context: &mut CreateContext<'_>) -> Result<bool, Error> {
    context.trace.point("place", context.options.id)?;
    let spec = &mut context.spec;
    let Some(words) = asked(context.options.pin, spec, &[PIN]) else { return Ok(false) };
    let wrong = |error: PinError| Error::Text(error.told_of("pin"));
    let pin = Pin::parse(words).map_err(wrong)?;
    let topology = Topology::read("")?;
    let Some(linux) = spec.linux.as_mut() else { return Ok(false) };
    let resources = linux.resources.get_or_insert_default();
    let cpu = resources.cpu.get_or_insert_with(Cpu::default);
    let online = topology.online();
    let allowed = match List::parse(&cpu.cpus) {
        Some(list) if !list.is_empty() => list.intersection(&online),
        _ => online,
    };
    let placement = pin.resolve(&topology, &allowed).map_err(wrong)?;
    cpu.cpus = placement.cpus.to_string();
    if cpu.mems.is_empty() {
        cpu.mems = placement.mems.to_string();
    }
    Ok(true)
}

/// Takes a cgroup from the requested pool, if any.
///
/// # Errors
/// If there is no such pool, or if the cgroup driver is not cgroupfs.
pub(crate) fn pool(context: &mut CreateContext<'_>) -> Result<bool, Error> {
    let CreateContext { purpose, options, .. } = *context;
    let spec = &mut context.spec;
    let Some(size) = asked(options.pool, spec, &POOL).filter(|_| purpose != Purpose::Plan) else {
        return Ok(false);
    };
    if options.cgroup_driver != CgroupDriver::Cgroupfs {
        return Err(Error::text("pools are for the cgroupfs driver: leave out --systemd-cgroup"));
    }
    let taken = pool::take(&Hierarchies::detect()?, &Size::parse(size)?)?;
    if let (Some(limit), Some(linux)) = (taken.limit, spec.linux.as_mut()) {
        let resources = linux.resources.get_or_insert_default();
        let memory = resources.memory.get_or_insert_with(Memory::default);
        memory.limit = memory.limit.filter(|limit| *limit != 0).or(Some(limit));
    }
    context.pooled = Some(taken);
    Ok(true)
}
