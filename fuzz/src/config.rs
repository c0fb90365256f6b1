//! config.json: read, checked, compiled to a plan. What comes out must be a plan that the launcher can run.

use plan::{Console, Kernel, Plan, Request, FastPaths};
use spec::Spec;

/// See the module's text.
pub fn target(data: &[u8]) {
    let Ok(spec) = Spec::parse(data) else {
        // What is no configuration for the quick reader is none for the thorough one.
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

/// A request with everything a start makes use of, or nothing of it.
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
        template: quick,
        ..Request::new("fuzz", "/bundle", kernel)
    }
}

/// What every plan has, and in which order.
fn check(plan: &Plan) {
    if let Err(broken) = plan::check::check(plan) {
        panic!("{broken}");
    }
    // Every step has words.
    let (host, init) = plan::labels(plan);
    assert!(host.iter().chain(&init).all(|label| !label.name.is_empty()));
}
