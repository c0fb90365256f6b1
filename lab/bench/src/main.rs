//! The `dayfly-bench` program, which `dayfly bench` executes.

use dayfly_bench::options::{Command, Options};
use dayfly_bench::session::run;
use dayfly_bench::{Error, config, kubernetes, leftover, lookups, scale, shim, trace, unshare};
use report::interrupt::{self, Second};
use std::process::ExitCode;

fn main() -> ExitCode {
    // `dayfly trace` is one of the experiments, but has its own command.
    let name = match std::env::args_os().nth(1) {
        Some(word) if word == "trace" => "dayfly",
        _ => "dayfly bench",
    };
    let command = report::usage::arguments_as::<Options>(name).command;
    dayfly_bench::report::end_with_the_report();
    let result =
        interrupt::catch(Second::Waits).map_err(Error::from).and_then(|()| execute(command));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report::usage::fail(error),
    }
}

fn execute(command: Command) -> Result<(), Error> {
    match command {
        Command::Start(start) => run(start),
        Command::Burst(burst) => run(burst),
        Command::Spaced(spaced) => run(spaced),
        Command::Faas(faas) => run(*faas),
        Command::Mounts(mounts) => run(mounts),
        Command::Layers(layers) => run(layers),
        Command::FirstUse(first_use) => run(first_use),
        Command::Staircase(staircase) => run(staircase),
        Command::Learned(learned) => run(learned),
        Command::Lookups(lookups) => lookups::command(&lookups),
        Command::Unshare(unshare) => unshare::command(&unshare),
        Command::FavorDynmods(favordynmods) => run(favordynmods),
        Command::Memory(memory) => run(memory),
        Command::Bulk(bulk) => run(bulk),
        Command::Restore(restore) => run(restore),
        Command::Templates(templates) => run(templates),
        Command::Shim(shim) => run(shim),
        Command::Kubernetes(kubernetes) => kubernetes::command(&kubernetes),
        Command::Scale(scale) => scale::command(&scale),
        Command::Ablation(ablation) => run(ablation),
        Command::Pools(pools) => run(pools),
        Command::Trace(trace) => run(trace),
        Command::TraceOverhead(overhead) => run(overhead),
        Command::Report(report) => dayfly_bench::report::command(&report),
        Command::Groups(groups) => run(groups),
        Command::Flame(flame) => run(flame),
        Command::Gc => gc(),
        Command::Bundle(bundle) => config::write(&bundle),
        Command::Work(work) => dayfly_bench::groups::work::command(&work),
        Command::ShimDaemon(daemon) => shim::daemon::become_daemon(&daemon),
        Command::MakeIpcNamespaces { count } => unshare::make(count),
        Command::IdleCalls { count } => {
            println!("{}", trace::calibrate::idle_calls(count));
            Ok(())
        }
    }
}

fn gc() -> Result<(), Error> {
    let leftover::Cleared { told, failed } = leftover::clear()?;
    for left in told {
        println!("{left}");
    }
    failed.into_iter().next().map_or(Ok(()), Err)
}
