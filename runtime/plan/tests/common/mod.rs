//! What the tests of plans have in common.

use dayfly_plan::{Plan, check};

/// A plan that keeps every rule of order, as all have to that tests compile.
#[track_caller]
pub fn checked(plan: Plan) -> Plan {
    if let Err(broken) = check::check(&plan) {
        panic!("{broken}: {}", broken.rule.why);
    }
    plan
}
