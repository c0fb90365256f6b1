//! config.json: read, checked, compiled to a plan. What comes out must be a plan that the launcher can run.

use plan::step::{HostStep, InitStep};
use plan::{Console, Kernel, Plan, Request, Techniques};
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
        techniques: if quick { Techniques::all() } else { Techniques::empty() },
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
    let host = |wanted: fn(&HostStep) -> bool| plan.host.iter().position(wanted);
    let init = |wanted: fn(&InitStep) -> bool| plan.init.iter().position(wanted);
    let clone = host(|step| matches!(step, HostStep::Clone { .. })).expect("a clone");
    let birth = host(|step| matches!(step, HostStep::RecordBirth)).expect("a birth");
    let commit = host(|step| matches!(step, HostStep::Commit)).expect("a commit");
    assert!(clone < birth && birth < commit);
    let exec = init(|step| matches!(step, InitStep::Exec { .. })).expect("a program");
    let find = init(|step| matches!(step, InitStep::FindProgram { .. })).expect("a search");
    let close = init(|step| matches!(step, InitStep::CloseFds { .. })).expect("closed descriptors");
    let inside = init(|step| matches!(step, InitStep::VerifyDirectory)).expect("a check");
    assert!(exec + 1 == plan.init.len() && find < exec && close < exec && inside < exec);
    // Where the ids change the capabilities are set afterwards, if the configuration has any.
    let user = init(|step| matches!(step, InitStep::ChangeUser { .. })).expect("a user");
    let last = plan.init.iter().rposition(|step| matches!(step, InitStep::SetCapabilities(_)));
    assert!(last.is_none_or(|last| user < last));
    // Every step has words.
    let (host, init) = plan::labels(plan);
    assert!(host.iter().chain(&init).all(|label| !label.name.is_empty()));
}
