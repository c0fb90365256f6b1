//! `bulk`: creates many containers, and then times the starts of all of them.
//!
//! A host whose containers were created in advance starts them in this way when it boots. Oracle's article on
//! favordynmods measures Podman in this way, too: a loop calls `podman start` for each of a hundred existing containers
//! with limits.

mod podman;

use crate::harness::*;
use crate::process::Sample;
use crate::{burst, cgroup, concurrent};
use podman::Podman;

/// `bulk`.
#[derive(Debug, Args)]
pub struct Bulk {
    /// Number of containers that are created, and then started
    #[arg(long, value_name = "N", value_parser = some, default_value = "100")]
    pub count: usize,
    /// Number of starts at a time; 1 is one after the other
    #[arg(long, value_delimiter = ',', value_parser = some, default_value = "1,16")]
    pub width: Vec<usize>,
    /// Rounds of each runtime at each width
    #[arg(long, value_name = "N", value_parser = some, default_value_t = 6)]
    pub rounds: usize,
    /// Limit each container to 2 CPUs and 4 GiB of memory, like "podman create --cpus 2 -m 4g"; requires these
    /// controllers
    #[arg(long)]
    pub limits: bool,
    /// Create and start them by podman, which executes each runtime, instead of by the runtime itself
    #[arg(long)]
    pub podman: bool,
}

/// The times of one round of one entrant.
#[derive(Debug, Clone)]
struct Round {
    /// The time to create all containers, one after the other, in seconds.
    create_s: f64,
    /// The time to start all containers: from before the first start until the last one returns, in seconds.
    start_s: f64,
    /// The time to delete all containers, one after the other, in seconds.
    delete_s: f64,
    /// The time of each start, in microseconds.
    starts_us: Vec<f64>,
}

impl Experiment for Bulk {
    fn prepare(&mut self, common: &mut Common) -> Result<(), Error> {
        let needs_controllers = self.limits && common.view.is_none();
        if needs_controllers { cgroup::enter_view_with(&["cpu", "memory"]) } else { Ok(()) }
    }

    /// For every width, the entrants take turns round by round.
    fn measure(&self, stand: &Stand, entrants: &[Entrant]) -> Result<Outcome, Error> {
        if self.limits
            && let Some(missing) = ["cpu", "memory"].into_iter().find(|name| !can_limit(name))
        {
            let view = View::current().name();
            bail!(
                "--limits: no controller {missing} in the {view} view: leave --limits out, or use another --view"
            );
        }
        let podman = self.podman.then(|| Podman::set_up(stand)).transpose()?;
        if podman.is_none() {
            burst::warm_up(stand, entrants, &[])?;
        }
        let (mut rows, mut medians) = (Vec::new(), Vec::new());
        let mut figures = Figures::default();
        for &width in &self.width {
            let rounds = Rounds { timed: self.rounds, ..Rounds::default() };
            let how = format!("{width} at a time");
            let done = in_turns(entrants, rounds, &format!("bulk, {how}"), |at| match &podman {
                Some(podman) => podman.round(&entrants[at], self, width),
                None => self.round(stand, &entrants[at], width),
            })?;
            let done = entrants.iter().zip(done).filter(|(_, rounds)| !rounds.is_empty());
            for (Entrant { name, .. }, rounds) in done {
                let times = |of: fn(&Round) -> f64| rounds.iter().map(of).collect::<Vec<f64>>();
                let (start_s, create_s) = (times(|it| it.start_s), times(|it| it.create_s));
                let delete_s = times(|it| it.delete_s);
                let all = [("start", &start_s), ("create", &create_s), ("delete", &delete_s)];
                for (what, times) in all {
                    figures.rounds(format!("{how}: {what} all"), "s", name, times.iter().copied());
                }
                let starts_us: Vec<_> = rounds.iter().map(|round| &round.starts_us).collect();
                let ms = starts_us.iter().copied().flatten().map(|us| us / 1e3);
                figures.singles(format!("{how}: a start"), "ms", name, ms);
                rows.push(json!({
                    "width": width, "runtime": name, "create_s": create_s, "start_s": start_s,
                    "delete_s": delete_s, "starts_us": starts_us,
                }));
                medians.push((how.clone(), name.clone(), median(&mut start_s.clone())));
            }
        }
        let mut outcome = figures.outcome(first(entrants));
        let limits = if self.limits { ", limited to 2 CPUs and 4 GiB each" } else { "" };
        let by = if self.podman { " by podman, which executes the runtime" } else { "" };
        let containers = counted(self.count, "container");
        outcome.text.insert_str(0, &format!("{containers} created{by}{limits}, then started\n"));
        let title = format!("The starts of {containers}");
        outcome.pictures = vec![results::bars(&title, "s, median", medians.into_iter())];
        outcome.with("count", &self.count)?.with("rows", &rows)
    }
}

/// Sets the same limits as `podman create --cpus 2 -m 4g`.
fn limit(config: &mut Value) {
    config["linux"]["resources"]["cpu"] = json!({ "quota": 200_000, "period": 100_000 });
    config["linux"]["resources"]["memory"] = json!({ "limit": 4_i64 << 30 });
}

impl Bulk {
    /// Creates all containers, starts them, waits for their programs, and deletes them.
    fn round(&self, stand: &Stand, entrant: &Entrant, width: usize) -> Result<Round, Error> {
        let change = |config: &mut Value| {
            if self.limits {
                limit(config);
            }
        };
        let containers = (0..self.count).map(|_| Container::changed(stand, entrant, &[], change));
        let mut containers: Vec<_> = containers.collect::<Result<_, _>>()?;
        let create_s = each(Container::create, &containers)?;
        let start = |(): &mut (), container: &mut Container<'_>| container.start();
        let (time, starts) = concurrent::work(vec![(); width], containers.iter_mut(), start);
        interrupt::check()?;
        let starts: Vec<Sample> = starts.into_iter().collect::<Result<_, _>>()?;
        each(Container::exit, &containers)?;
        let delete_s = each(Container::delete, &containers)?;
        let starts_us = starts.iter().map(|sample| sample.wall.as_secs_f64() * 1e6).collect();
        Ok(Round { create_s, start_s: time.as_secs_f64(), delete_s, starts_us })
    }
}

/// Executes a command for each container, and returns the total time in seconds.
fn each<'a>(
    command: impl Fn(&Container<'a>) -> Result<Sample, Error>,
    containers: &[Container<'a>],
) -> Result<f64, Error> {
    let mut sum = 0.0;
    for container in containers {
        interrupt::check()?;
        sum += command(container)?.wall.as_secs_f64();
    }
    Ok(sum)
}
