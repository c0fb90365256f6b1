//! `density`: what an idle container holds, and whether a start takes longer the more containers there are.
//!
//! | part | what |
//! |---|---|
//! | [`crowd`] | the idle containers of one runtime |
//! | [`reading`] | memory and the kernel's objects, before and after a crowd has grown |
//! | [`tell`] | tables and pictures |
//!
//! All runtimes have a crowd of their own, and their starts take turns. The crowds grow from count to count, and shrink
//! again. At each count, one half of the starts is timed on the way up, and the other half on the way down. Each start is
//! followed by a ruler: work that is the same at all counts. What grows is the ratio of both, since the speed of the host
//! changes within minutes.

mod crowd;
mod reading;
mod tell;
#[cfg(test)]
mod tests;

use crate::harness::*;
use crate::process::Sample;
use crate::staircase;
use crate::weight::{Way, Weight};
use crowd::Crowd;
use reading::Share;
use report::size;

/// `density`.
#[derive(Debug, Args)]
#[command(
    mut_arg("bundle", |arg| arg.hide(true)),
    mut_arg("program", |arg| arg.hide(true))
)]
pub struct Density {
    /// Numbers of idle containers of each runtime, with a network namespace each
    #[arg(long, value_delimiter = ',', default_value = "1,10,100,1000")]
    pub count: Vec<usize>,
    /// Numbers of idle containers of each runtime, without a network namespace; 0 for none
    #[arg(long, value_delimiter = ',', default_value = "10,3000")]
    pub host_network: Vec<usize>,
    /// Number of timed starts of each runtime at each count
    #[arg(long, value_name = "N", value_parser = some, default_value_t = 40)]
    pub rounds: usize,
    /// Make no more containers when less memory than this is available [default: an eighth of the host's]
    #[arg(long, value_name = "SIZE", value_parser = size::kibibytes)]
    pub leave: Option<usize>,
    /// Also count the instructions of a start in user space at the first and the last count, up to N [default: 3000000]
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "3000000")]
    pub instructions: Option<u64>,
}

/// The count with which the highest one is compared, if it is among the counts.
const BASE: usize = 10;
/// The largest ratio of these two that counts as no growth.
const BAR: f64 = 1.3;

/// The ruler: a shell that executes a program some times.
const RULER: &str = "for i in 1 2 3; do /bin/busybox true; done";

/// The starts and the crowd of one entrant at one count.
#[derive(Debug, Default, Serialize)]
struct Row {
    /// Which network the containers have.
    network: &'static str,
    /// The number of idle containers of each entrant.
    count: usize,
    runtime: String,
    /// The times of starts with their removal, in milliseconds.
    wall_ms: Vec<f64>,
    /// Their CPU times.
    cpu_ms: Vec<f64>,
    /// The same of the ruler after each start.
    ruler_wall_ms: Vec<f64>,
    ruler_cpu_ms: Vec<f64>,
    /// The counts of one start, at the first and the last count.
    weight: Option<Weight>,
    /// What one container of the crowd holds.
    share: Share,
}

/// A start at the highest count ÷ one at the base.
#[derive(Debug, Serialize)]
struct Growth {
    network: &'static str,
    runtime: String,
    base: usize,
    count: usize,
    /// The ratio of the times, each divided by the ruler's, unless there are too few.
    wall: Option<Estimate>,
    /// The same of the CPU times.
    cpu: Option<Estimate>,
}

impl Experiment for Density {
    fn measure(&self, stand: &Stand, entrants: &[Entrant]) -> Result<Outcome, Error> {
        crowd::install(stand)?;
        let (mut rows, mut ends) = (Vec::new(), Vec::new());
        for (network, counts) in
            [("own network", &self.count), ("host network", &self.host_network)]
        {
            let mut counts: Vec<usize> =
                counts.iter().copied().filter(|&count| count > 0).collect();
            counts.sort_unstable();
            counts.dedup();
            let change: fn(&mut Value) =
                if network == "own network" { |_| {} } else { staircase::network };
            let scene = Scene { options: self, stand, entrants, network, change };
            let (more, end) = scene.play(&counts)?;
            rows.extend(more);
            ends.extend(end.map(|end| format!("{network}: {end}")));
        }
        rows.retain(|row| entrants.iter().any(|it| it.name == row.runtime && !it.is_out()));
        tell::outcome(&rows, &growths(&rows), &ends, first(entrants))
    }
}

/// All counts with one kind of network.
struct Scene<'a> {
    options: &'a Density,
    stand: &'a Stand,
    entrants: &'a [Entrant],
    network: &'static str,
    change: fn(&mut Value),
}

impl<'a> Scene<'a> {
    /// Measures at all counts, or until a limit is reached. Returns this limit, too.
    fn play(&self, counts: &[usize]) -> Result<(Vec<Row>, Option<String>), Error> {
        let crowd = |entrant| Crowd::new(self.stand, entrant, self.change);
        let mut crowds: Vec<Crowd<'a>> = self.entrants.iter().map(crowd).collect();
        let (mut levels, mut end) = (Vec::new(), None);
        let up = self.options.rounds.div_ceil(2);
        for &count in counts {
            let mut rows = Vec::new();
            for crowd in &mut crowds {
                let runtime = crowd.entrant.name.clone();
                let title = format!("{}, idle containers of {runtime}", self.network);
                if end.is_none() {
                    end = crowd.grow(count, &title, self.options.leave)?;
                }
                let (network, share) = (self.network, crowd.share());
                rows.push(Row { network, runtime, share, ..Row::default() });
            }
            let sizes = crowds.iter().filter(|it| !it.entrant.is_out()).map(Crowd::size);
            let Some(size) = sizes.min().filter(|&size| size > 0) else { break };
            rows.iter_mut().for_each(|row| row.count = size);
            self.time(&mut rows, up)?;
            if levels.is_empty() || counts.last() == Some(&count) || end.is_some() {
                self.weigh(&mut rows)?;
            }
            levels.push(rows);
            if end.is_some() {
                break;
            }
        }
        for rows in levels.iter_mut().rev() {
            crowds.iter_mut().try_for_each(|crowd| crowd.shrink(rows[0].count))?;
            reading::settle()?;
            self.time(rows, self.options.rounds - up)?;
        }
        crowds.iter_mut().try_for_each(|crowd| crowd.shrink(0))?;
        Ok((levels.into_iter().flatten().collect(), end))
    }

    /// Starts and removes one more container beside the crowds.
    fn start(&self, at: usize, way: Way) -> Result<Sample, Error> {
        let container = Container::changed(self.stand, &self.entrants[at], &[], self.change)?;
        container.execute_by(way);
        container.run()
    }

    /// Times starts at the present count.
    fn time(&self, rows: &mut [Row], timed: usize) -> Result<(), Error> {
        let rounds = Rounds { warm_up: 1, timed, ..Rounds::default() };
        let title = format!("{}, starts beside {}", self.network, rows[0].count);
        let busybox = self.stand.directory.join("rootfs/bin/busybox");
        let samples = in_turns(self.entrants, rounds, &title, |at| {
            let start = self.start(at, Way::Timed)?;
            let mut ruler = process::quiet(&busybox);
            let ruler = process::run(ruler.args(["sh", "-c", RULER]), self.stand.deadline);
            Ok([start, ruler.map_err(|failure| unfit!("busybox: {failure}"))?])
        })?;
        let wall = |it: &Sample| it.wall.as_secs_f64() * 1e3;
        let cpu = |it: &Sample| it.usage.cpu().as_secs_f64() * 1e3;
        for (row, samples) in rows.iter_mut().zip(samples) {
            for [start, ruler] in &samples {
                row.wall_ms.push(wall(start));
                row.cpu_ms.push(cpu(start));
                row.ruler_wall_ms.push(wall(ruler));
                row.ruler_cpu_ms.push(cpu(ruler));
            }
        }
        Ok(())
    }

    /// Counts one start at the present count, of the entrants that can be traced.
    fn weigh(&self, rows: &mut [Row]) -> Result<(), Error> {
        for (at, row) in rows.iter_mut().enumerate().filter(|(at, _)| !self.entrants[*at].is_out())
        {
            interrupt::check()?;
            row.weight = self.start(at, Way::Calls).ok().map(|it| it.weight);
            if let (Some(weight), Some(most)) = (&mut row.weight, self.options.instructions) {
                let counted = self.start(at, Way::Instructions(most)).ok();
                weight.instructions = counted.and_then(|it| it.weight.instructions);
            }
        }
        Ok(())
    }
}

/// Compares each entrant's starts at its highest count with those at the base.
fn growths(rows: &[Row]) -> Vec<Growth> {
    let series = results::grouped(rows.iter().map(|row| ((row.network, &row.runtime), row)));
    let growth = |((network, runtime), rows): ((_, &String), Vec<&Row>)| {
        let base = rows.iter().find(|row| row.count == BASE).or_else(|| rows.first())?;
        let top = rows.last().filter(|top| top.count > base.count)?;
        let ratio = |times: fn(&Row) -> [&Vec<f64>; 2]| {
            let by_ruler = |row| -> Vec<f64> {
                let [starts, rulers] = times(row);
                starts.iter().zip(rulers).map(|(start, ruler)| start / ruler).collect()
            };
            bootstrap::ratio(&by_ruler(top), &by_ruler(base), Pairing::Independent)
        };
        let wall = ratio(|row| [&row.wall_ms, &row.ruler_wall_ms]);
        let cpu = ratio(|row| [&row.cpu_ms, &row.ruler_cpu_ms]);
        let runtime = runtime.clone();
        Some(Growth { network, runtime, base: base.count, count: top.count, wall, cpu })
    };
    series.into_iter().filter_map(growth).collect()
}
