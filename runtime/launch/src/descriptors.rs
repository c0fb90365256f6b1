//! A raised limit on open descriptors, for plans that hold many of them: each bind mount is one until init attaches it.

use plan::Plan;
use plan::step::Limit;
use rustix::process::{Rlimit, setrlimit};

/// The caller's own limit, which is set again when this value is dropped.
#[derive(Debug)]
pub(crate) struct Raised(Limit);

impl Raised {
    /// Raises this process's limit if the plan says so. Init inherits the limit and lowers it as its last step.
    pub(crate) fn for_plan(plan: &Plan) -> Option<Self> {
        let descriptors = plan.descriptors?;
        set(&descriptors.raised).then_some(Self(descriptors.own))
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        set(&self.0);
    }
}

/// Sets a limit of this process. Every process may raise its soft limit to its hard limit, and lower it.
fn set(limit: &Limit) -> bool {
    setrlimit(limit.resource, Rlimit { current: limit.soft, maximum: limit.hard }).is_ok()
}
