//! The kinds of plan steps, and a record of the kinds that a test has made fail.

use crate::container::Container;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Mutex;

/// The source file that names every kind of step, with one match arm per kind: a kind without a name does not compile.
const LABELS: &str = include_str!("../../runtime/plan/src/label.rs");

/// A step of a plan.
#[derive(Debug, Clone)]
pub struct Step {
    /// `parent` or `init`.
    pub actor: &'static str,
    /// The step's index in the actor's list.
    pub number: usize,
    /// The name of the step's kind.
    pub name: String,
    /// What the step works on; may be empty.
    pub object: String,
}

/// Returns the names of all kinds, with their actors.
#[must_use]
pub fn kinds() -> BTreeSet<(&'static str, String)> {
    let mut kinds = BTreeSet::new();
    let mut actor = None;
    let mut named = true;
    for line in LABELS.lines() {
        match line {
            "impl Labelled for ParentStep {" => actor = Some("parent"),
            "impl Labelled for InitStep {" => actor = Some("init"),
            "}" => actor = None,
            _ => {}
        }
        let Some(actor) = actor else { continue };
        named &= !line.starts_with("            Self::");
        let holds_name =
            ["label(", "wait(", "                \""].iter().any(|part| line.contains(part));
        if let (false, true, Some(name)) = (named, holds_name, line.split('"').nth(1)) {
            named = true;
            kinds.insert((actor, name.to_owned()));
        }
    }
    kinds
}

/// Returns the steps of a container's plan, the parent's first. `command` is `plan` with the options before and after it.
/// `without` lists the fast paths to disable.
#[must_use]
pub fn of(c: &Container<'_>, command: &[&str], without: &str) -> Vec<Step> {
    let bundle = c.bundle.to_string_lossy();
    let call = c.bed.call(&[command, &["--format", "json", &bundle]].concat());
    let plan = call.env("DAYFLY_WITHOUT", without).run().ok();
    let plan: Value = serde_json::from_str(&plan.stdout).expect("plan");
    let steps = |actor: &'static str| {
        let list = plan[actor].as_array().cloned().unwrap_or_default();
        list.into_iter().enumerate().map(move |(number, step)| {
            let text = |key: &str| step[key].as_str().unwrap_or_default().to_owned();
            Step { actor, number, name: text("step"), object: text("object") }
        })
    };
    steps("parent").chain(steps("init")).collect()
}

/// Returns the step whose name an error message contains.
#[must_use]
pub fn named_by(actor: &'static str, number: usize, error: &str) -> Option<Step> {
    let is_named = |name: &str| {
        let text = format!(": {name}");
        error.match_indices(&text).any(|(at, _)| error[at + text.len()..].starts_with([' ', ':']))
    };
    let kinds = kinds();
    let own = kinds.iter().filter(|(of, _)| *of == actor).map(|(_, name)| name);
    let name = match error.contains(": exec: \"") {
        true => "find program".to_owned(),
        false => own.filter(|name| is_named(name)).max_by_key(|name| name.len())?.clone(),
    };
    Some(Step { actor, number, name, object: String::new() })
}

/// The kinds of steps that were made to fail, with the kind of fault.
static STRUCK: Mutex<BTreeSet<(&'static str, String, &'static str)>> = Mutex::new(BTreeSet::new());

/// Records that a step was made to fail.
///
/// # Panics
/// Only if another case panicked while recording a step.
pub fn struck(actor: &'static str, name: &str, how: &'static str) {
    STRUCK.lock().expect("struck").insert((actor, name.to_owned(), how));
}

/// Returns the kinds of steps that were not made to fail by this kind of fault.
///
/// # Panics
/// As [`struck`].
#[must_use]
pub fn missing(how: &'static str) -> Vec<(&'static str, String)> {
    let struck = STRUCK.lock().expect("struck");
    let is_missing =
        |kind: &(&'static str, String)| !struck.contains(&(kind.0, kind.1.clone(), how));
    kinds().into_iter().filter(is_missing).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_arm_has_a_name() {
        let arms = LABELS.lines().filter(|line| line.starts_with("            Self::")).count();
        assert_eq!(kinds().len(), arms, "{:?}", kinds());
        assert!(kinds().contains(&("parent", "require module".to_owned())));
        assert!(kinds().contains(&("init", "hand over listener".to_owned())));
    }

    #[test]
    fn errors_name_steps() {
        let name = |error: &str| named_by("init", 0, error).map(|step| step.name);
        let error = "container init: join namespaces pid net: fault: input/output error";
        assert_eq!(name(error).as_deref(), Some("join namespaces"));
        assert_eq!(name("process: exec: \"sh\": no").as_deref(), Some("find program"));
        assert_eq!(name("process: exec sh: no").as_deref(), Some("exec"));
        assert_eq!(name("nothing"), None);
    }
}
