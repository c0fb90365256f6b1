//! The `dayfly-bench` program, which `dayfly bench` executes.

use dayfly_bench::options::{
    Ablation, Bundle, Command, Common, Options, Pools, Trace, TraceOverhead,
};
use dayfly_bench::runtime::Runtime;
use dayfly_bench::stand::Entrant;
use dayfly_bench::view::View;
use dayfly_bench::{
    Error, ablation, bulk, burst, config, faas, favordynmods, first_use, flame, groups, kubernetes,
    layers, learned, leftover, lookups, memory, mounts, pools, restore, rootfs, runtime, scale,
    session, shim, spaced, staircase, start, templates, trace, unshare,
};
use report::interrupt::{self, Second};
use std::fs;
use std::path::Path;
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
        Command::Start(options) => {
            session::run(&options.common, entrants(&options.common)?, |stand, entrants| {
                start::experiment(&options, stand, entrants)
            })
        }
        Command::Burst(options) => {
            let entrants = burst::entrants(entrants(&options.common)?, &options.start_limit);
            session::run(&options.common, entrants, |stand, entrants| {
                burst::experiment(&options, stand, entrants)
            })
        }
        Command::Spaced(options) => {
            session::run(&options.common, entrants(&options.common)?, |stand, entrants| {
                spaced::experiment(&options, stand, entrants)
            })
        }
        Command::Faas(options) => {
            let options = options.settled().in_user_namespace();
            let workload = faas::Workload::of(&options)?;
            session::run(&options.common, entrants(&options.common)?, |stand, entrants| {
                faas::experiment(&options, &workload, stand, entrants)
            })
        }
        Command::Mounts(options) => {
            session::run(&options.common, entrants(&options.common)?, |stand, entrants| {
                mounts::experiment(&options, stand, entrants)
            })
        }
        Command::Layers(options) => {
            session::run(&options.common, entrants(&options.common)?, |stand, entrants| {
                layers::experiment(&options, stand, entrants)
            })
        }
        Command::FirstUse(options) => {
            let options = options.settled();
            session::run(&options.common, entrants(&options.common)?, |stand, entrants| {
                first_use::experiment(&options, stand, entrants)
            })
        }
        Command::Learned(options) => {
            let options = options.settled();
            session::run(&options.common, entrants(&options.common)?, |stand, entrants| {
                learned::experiment(&options, stand, entrants)
            })
        }
        Command::Staircase(options) => {
            let options = options.settled();
            session::run(&options.common, entrants(&options.common)?, |stand, entrants| {
                staircase::experiment(&options, stand, entrants)
            })
        }
        Command::FavorDynmods(options) => {
            session::run(&options.common, entrants(&options.common)?, |stand, entrants| {
                favordynmods::experiment(&options, stand, entrants)
            })
        }
        Command::Groups(options) => {
            groups::uncover(&options)?;
            session::run(&options.common, Vec::new(), |stand, _| {
                groups::experiment(&options, stand)
            })
        }
        Command::Work(options) => groups::work::command(&options),
        Command::Flame(options) => {
            session::run(&options.common, entrants(&options.common)?, |stand, entrants| {
                flame::experiment(&options, stand, entrants)
            })
        }
        Command::Memory(options) => {
            let options = options.settled();
            memory::uncover(&options)?;
            session::run(&options.common, entrants(&options.common)?, |stand, entrants| {
                memory::experiment(&options, stand, entrants)
            })
        }
        Command::Bulk(options) => {
            let options = options.settled();
            session::run(&options.common, entrants(&options.common)?, |stand, entrants| {
                bulk::experiment(&options, stand, entrants)
            })
        }
        Command::Restore(options) => {
            let options = options.settled();
            session::run(&options.common, entrants(&options.common)?, |stand, entrants| {
                restore::experiment(&options, stand, entrants)
            })
        }
        Command::Templates(options) => {
            let options = options.settled();
            let entrants = templates::entrants(&own(&options.common)?, &options)?;
            session::run(&options.common, entrants, |stand, entrants| {
                templates::experiment(&options, stand, entrants)
            })
        }
        Command::Shim(options) => {
            session::run(&options.common, shim::entrants(&options)?, |stand, entrants| {
                shim::experiment(&options, stand, entrants)
            })
        }
        Command::Kubernetes(options) => kubernetes::command(&options),
        Command::Scale(options) => scale::command(&options.settled()),
        Command::ShimDaemon(options) => shim::daemon::become_daemon(&options),
        Command::Ablation(options) => ablation(&options),
        Command::Pools(options) => pools(&options),
        Command::Trace(options) => trace(&options.settled()),
        Command::TraceOverhead(options) => trace_overhead(&options),
        Command::Lookups(options) => lookups::command(&options),
        Command::Unshare(options) => unshare::command(&options),
        Command::MakeIpcNamespaces { count } => unshare::make(count),
        Command::Report(options) => dayfly_bench::report::command(&options),
        Command::Gc => {
            let leftover::Cleared { told, failed } = leftover::clear()?;
            for left in told {
                println!("{left}");
            }
            failed.into_iter().next().map_or(Ok(()), Err)
        }
        Command::Bundle(options) => bundle(&options),
        Command::IdleCalls { count } => {
            println!("{}", trace::calibrate::idle_calls(count));
            Ok(())
        }
    }
}

fn trace(options: &Trace) -> Result<(), Error> {
    let entrants = match options.common.runtimes[..] {
        [] => vec![Entrant::new(own(&options.common)?)],
        _ => entrants(&options.common)?,
    };
    session::run(&options.common, entrants, |stand, entrants| {
        trace::experiment(options, stand, entrants)
    })
}

fn trace_overhead(options: &TraceOverhead) -> Result<(), Error> {
    let runtime = own(&options.common)?;
    let entrants = trace::overhead::entrants(&runtime, Path::new("/dev/shm"));
    session::run(&options.common, entrants, |stand, entrants| {
        trace::overhead::experiment(options, stand, entrants)
    })
}

fn ablation(options: &Ablation) -> Result<(), Error> {
    let runtime = own(&options.common)?;
    let entrants = ablation::entrants(&runtime, options);
    session::run(&options.common, entrants, |stand, entrants| {
        ablation::experiment(options, stand, entrants)
    })
}

fn pools(options: &Pools) -> Result<(), Error> {
    // Pools require a memory controller.
    if options.common.view.is_none() && !dayfly_bench::cgroup::can_limit("memory") {
        View::leave()?;
    }
    let entrants = pools::entrants(&own(&options.common)?, &options.size);
    session::run(&options.common, entrants, |stand, entrants| {
        pools::experiment(options, stand, entrants)
    })
}

/// Returns the first runtime that the options name, or else this installation's dayfly.
fn own(options: &Common) -> Result<Runtime, Error> {
    match options.runtimes.first() {
        Some(argument) => Runtime::from_argument(argument),
        None => Ok(runtime::find(&[])?.swap_remove(0)),
    }
}

fn bundle(options: &Bundle) -> Result<(), Error> {
    let directory = &options.directory;
    let config = config::podman(options.profile)?;
    fs::create_dir(directory).map_err(Error::at("make", directory))?;
    rootfs::make(&directory.join("rootfs"), options.profile.owner())?;
    let file = directory.join("config.json");
    fs::write(&file, format!("{config:#}\n")).map_err(Error::at("write", &file))
}

fn entrants(options: &Common) -> Result<Vec<Entrant>, Error> {
    Ok(runtime::find(&options.runtimes)?.into_iter().map(Entrant::new).collect())
}
