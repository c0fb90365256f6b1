//! `update`: changes a container's limits.

use alloc::collections::BTreeMap;

use ::spec::resources::{BlockIo, Cpu, Memory, Pids, Resources};
use rustix::fs::CWD;

use super::*;
use crate::duration::decimal;

/// The period of the CPU quota of `--cpus`, in microseconds.
const PERIOD: u64 = 100_000;
/// The permitted limits of CPU time, in thousandths of a CPU; the kernel refuses less than a hundredth of a CPU.
const MILLI_CPUS: core::ops::RangeInclusive<i128> = 10..=10_000_000;

pub fn command(invocation: &Invocation<'_>) -> Result<(), Failure> {
    let container = invocation.exact_container()?;
    let values = invocation.values;
    let resources = match values.text(&RESOURCES) {
        Some(file) => read(file, invocation.warn.print)?,
        None => from_options(values)?,
    };
    container.update_rdt(values.text(&L3_CACHE_SCHEMA), values.text(&MEM_BW_SCHEMA))?;
    Ok(container.update(&resources)?)
}

/// Reads resources as JSON, from a file or from standard input.
fn read(file: &str, tell: &dyn Fn(&str)) -> Result<Resources, Failure> {
    let text: Vec<u8> = match file {
        "-" => sys::fs::read_all(sys::stdio::stdin()).context("read", "standard input")?,
        path => sys::fs::read_at(CWD, path).context("open", path)?,
    };
    let (resources, misspelt) =
        Resources::parse_and_tell(&text).map_err(|error| failure!("{file}: {error}"))?;
    misspelt.iter().for_each(|key| tell(&format!("{file}: {key}")));
    Ok(resources)
}

/// Returns the resources that options set. All other resources are absent in the result, so they stay unchanged.
pub(super) fn from_options(values: &Values<'_>) -> Result<Resources, Failure> {
    // The kernel has removed both limits. The two options are parsed only to report invalid values.
    size_in(values, &KERNEL_MEMORY)?;
    size_in(values, &KERNEL_MEMORY_TCP)?;
    let memory = Memory {
        limit: size_in(values, &MEMORY)?,
        reservation: size_in(values, &MEMORY_RESERVATION)?,
        swap: size_in(values, &MEMORY_SWAP)?,
        // No options; see also above.
        kernel: None,
        kernel_tcp: None,
        swappiness: None,
        disable_oom_killer: None,
        use_hierarchy: None,
        check_before_update: None,
    };
    let mut cpu = Cpu {
        shares: number_in(values, &CPU_SHARE)?.or(number_in(values, &CPU_SHARES)?),
        quota: number_in(values, &CPU_QUOTA)?,
        burst: number_in(values, &CPU_BURST)?,
        period: number_in(values, &CPU_PERIOD)?,
        realtime_runtime: number_in(values, &CPU_RT_RUNTIME)?,
        realtime_period: number_in(values, &CPU_RT_PERIOD)?,
        cpus: values.text(&CPUSET_CPUS).unwrap_or_default().to_string(),
        mems: values.text(&CPUSET_MEMS).unwrap_or_default().to_string(),
        idle: number_in(values, &CPU_IDLE)?,
    };
    if let Some(text) = values.text(&CPUS) {
        if cpu.quota.is_some() || cpu.period.is_some() {
            return Err(Failure::new("--cpus sets --cpu-quota and --cpu-period: leave these out"));
        }
        let milli = decimal(text, 1000)
            .filter(|milli| MILLI_CPUS.contains(milli))
            .and_then(|milli| i64::try_from(milli).ok())
            .ok_or_else(|| failure!("--cpus {text}: must be a number of CPUs from 0.01 on"))?;
        cpu.quota = Some(milli * PERIOD.cast_signed() / 1000);
        cpu.period = Some(PERIOD);
    }
    // A weight of 0 means the same as an omitted option.
    let weight = number_in(values, &BLKIO_WEIGHT)?.filter(|weight| *weight != 0);
    let pids = Pids { limit: values.integer(&PIDS_LIMIT) };
    Ok(Resources {
        memory: Some(memory).filter(|memory| *memory != Memory::default()),
        cpu: Some(cpu).filter(|cpu| *cpu != Cpu::default()),
        block_io: weight.map(|weight| BlockIo { weight: Some(weight), ..BlockIo::default() }),
        pids: Some(pids).filter(|pids| pids.limit.is_some()),
        // No options: only with --resources.
        devices: Vec::new(),
        hugepage_limits: Vec::new(),
        network: None,
        rdma: BTreeMap::new(),
        unified: BTreeMap::new(),
    })
}

/// Parses the value of a text option as a number. The option is not defined as an integer, because runc also parses its
/// value only after it has parsed the command line.
fn number_in<T: TryFrom<i128>>(
    values: &Values<'_>,
    option: &'static Opt,
) -> Result<Option<T>, Failure> {
    let Some(text) = values.text(option) else { return Ok(None) };
    number::parse(text)
        .map(Some)
        .map_err(|reason| failure!("invalid value for {}: parsing {text:?}: {reason}", option.long))
}

fn size_in(values: &Values<'_>, option: &'static Opt) -> Result<Option<i64>, Failure> {
    let Some(text) = values.text(option) else { return Ok(None) };
    size::parse(text)
        .map(Some)
        .map_err(|error| failure!("invalid value for {}: {error}", option.long))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::find;
    use crate::parser::parse_command;

    fn resources(args: &[&str]) -> Result<Resources, Failure> {
        let parsed = parse_command(find("update").unwrap(), args).unwrap();
        from_options(&parsed.values)
    }

    #[test]
    fn what_is_not_named_stays() {
        assert_eq!(resources(&["c"]).unwrap(), Resources::default());
        let only_memory = resources(&["--memory", "512m", "c"]).unwrap();
        let memory = Memory { limit: Some(512 << 20), ..Memory::default() };
        assert_eq!(only_memory, Resources { memory: Some(memory), ..Resources::default() });
    }

    #[test]
    fn all_options() {
        let args = "--cpu-share 512 --cpu-quota -1 --cpu-period 100000 --cpu-burst 5 --cpu-idle 1 \
            --cpu-rt-period 9 --cpu-rt-runtime 8 --cpuset-cpus 0-1 --cpuset-mems 0 --pids-limit -1 \
            --blkio-weight 100 --memory -1 --memory-swap 1g --memory-reservation 1.5k";
        let got = resources(&args.split_whitespace().collect::<Vec<_>>()).unwrap();
        let cpu = got.cpu.unwrap();
        assert_eq!((cpu.shares, cpu.quota, cpu.period), (Some(512), Some(-1), Some(100_000)));
        assert_eq!((cpu.burst, cpu.idle), (Some(5), Some(1)));
        assert_eq!((cpu.realtime_period, cpu.realtime_runtime), (Some(9), Some(8)));
        assert_eq!((cpu.cpus.as_str(), cpu.mems.as_str()), ("0-1", "0"));
        let memory = got.memory.unwrap();
        assert_eq!((memory.limit, memory.swap), (Some(-1), Some(1 << 30)));
        assert_eq!(memory.reservation, Some(1536));
        assert_eq!(got.pids.unwrap().limit, Some(-1));
        assert_eq!(got.block_io.unwrap().weight, Some(100));
    }

    #[test]
    fn mistakes() {
        for (args, message) in [
            (["--memory", "1x"], "invalid value for memory: invalid suffix: 'x'"),
            (["--kernel-memory", "x"], "invalid value for kernel-memory: invalid size: 'x'"),
            (
                ["--cpu-share", "-1"],
                "invalid value for cpu-share: parsing \"-1\": value out of range",
            ),
            (["--cpu-quota", "1s"], "invalid value for cpu-quota: parsing \"1s\": invalid syntax"),
            (
                ["--blkio-weight", "70000"],
                "invalid value for blkio-weight: parsing \"70000\": value out of range",
            ),
        ] {
            assert_eq!(resources(&args).unwrap_err().message, message);
        }
    }
}
