//! `plan`: prints the steps of a container's start, or the rules for the order of these steps.

use ::plan::Plan;
use container::{CreateOptions, Warn};

use super::*;
use crate::{format, state_root};

/// The id of the container whose start is planned; this container is never created.
const ID: &str = "plan";

/// Returns the exit status: 1 if a rule is broken.
pub fn command(invocation: &Invocation<'_>) -> Result<i32, Failure> {
    let values = invocation.values;
    if values.is_set(&LAYERS) {
        container::enter_user_namespace(invocation.args, invocation.trace)?;
    }
    create::with_rootfs(invocation, ID, false, &|options| {
        let bundle = invocation.arguments.first().copied().unwrap_or_default();
        let options = CreateOptions { bundle, warn: Warn::default(), ..options };
        let store = state_root::of(invocation.globals, invocation.args)?;
        let store = store.open_for_plan(invocation.trace)?;
        let (plan, passes) = container::compile(&store, &options, !values.flag(&PLAN_OF_RUN))?;
        show(values, &plan, &passes)
    })
}

/// Prints passes and steps, or the rules and whether the plan follows them.
fn show(values: &Values<'_>, plan: &Plan, passes: &[&str]) -> Result<i32, Failure> {
    let json = is_json(values.text(&PLAN_FORMAT), "text")?;
    if values.flag(&PLAN_CHECK) {
        let rules = format::rules::Verdicts::of(plan);
        print(&if json { rules.json()? } else { rules.text() })?;
        return Ok(i32::from(rules.has_broken()));
    }
    print(&match json {
        true => format::plan::json(plan, passes)?,
        false => format::plan::text(plan, passes),
    })?;
    Ok(0)
}
