//! Helpers shared by the tests of plans.

use dayfly_plan::{Plan, check};

/// Returns the plan after checking every rule of order, as for all plans that tests compile.
#[track_caller]
pub fn checked(plan: Plan) -> Plan {
    if let Err(broken) = check::check(&plan) {
        panic!("{broken}: {}", broken.rule.why);
    }
    plan
}
