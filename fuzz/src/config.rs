//! config.json: parsed, validated and compiled to a plan. The plan must be one that the launcher can run.

use plan::{Console, FastPaths, Kernel, Plan, Request};
use spec::Spec;

/// Runs the target on one input; see the module's text.
pub fn target(data: &[u8]) {
    let Ok(spec) = Spec::parse(data) else {
        // If the quick parser rejects the text, the thorough one must do so, too.
        assert!(Spec::parse_whole(data).is_err());
        return;
    };
    if spec::validate(&spec).is_err() {
        return;
    }
    for quick in [true, false] {
        if let Ok(plan) = plan::compile(&spec, &request(&spec, quick)) {
            check(&plan);
        }
    }
}

/// Returns a request with all fast paths of a start, or with none.
fn request(spec: &Spec<'_>, quick: bool) -> Request<'static> {
    let terminal = spec.process.as_ref().is_some_and(|process| process.terminal);
    let kernel = Kernel {
        version: (6, 18),
        seccomp: seccomp::Support::default(),
        fast_paths: if quick { FastPaths::all() } else { FastPaths::empty() },
    };
    Request {
        wait_for_start: quick,
        attended: !quick,
        no_new_keyring: !quick,
        console: terminal.then_some(Console::Given),
        blank: quick,
        ..Request::new("fuzz", "/bundle", kernel)
    }
}

/// Checks the invariants of every plan.
fn check(plan: &Plan) {
    if let Err(broken) = plan::check::check(plan) {
        panic!("{broken}");
    }
    // Every step has a label.
    let (host, init) = plan::labels(plan);
    assert!(host.iter().chain(&init).all(|label| !label.name.is_empty()));
}
