use super::*;
use proptest::prelude::*;

fn resources(json: &str) -> Resources {
    serde_json::from_str(json).unwrap()
}

/// Returns the properties on v2 for `resources` in JSON, in the form `NAME=VALUE`.
fn on_v2(json: &str) -> Vec<String> {
    shown(of_resources(&resources(json), true, true).unwrap())
}

fn on_v1(json: &str) -> Vec<String> {
    shown(of_resources(&resources(json), false, true).unwrap())
}

fn shown(list: Vec<Property>) -> Vec<String> {
    let show = |property: &Property| match &property.value {
        Value::Uint64(u64::MAX) => format!("{}=infinity", property.name),
        Value::Uint64(number) => format!("{}={number}", property.name),
        Value::Bytes(bytes) => format!("{}={bytes:?}", property.name),
        Value::String(text) => format!("{}={text}", property.name),
        Value::Array(_, values) => {
            let member = |value: &Value| match value {
                Value::Struct(pair) => match pair.as_slice() {
                    [Value::String(path), Value::String(access)] => format!("{path} {access}"),
                    other => format!("{other:?}"),
                },
                other => format!("{other:?}"),
            };
            let members: Vec<_> = values.iter().map(member).collect();
            format!("{}={}", property.name, members.join(", "))
        }
        other => format!("{}={other:?}", property.name),
    };
    list.iter().map(show).collect()
}

#[test]
fn limits_of_v2() {
    assert_eq!(on_v2("{}"), Vec::<String>::new());
    let memory = r#"{"memory": {"limit": 1000, "swap": 1500, "reservation": 500}}"#;
    assert_eq!(on_v2(memory), ["MemoryMax=1000", "MemoryLow=500", "MemorySwapMax=500"]);
    assert_eq!(
        on_v2(r#"{"memory": {"limit": -1}}"#),
        ["MemoryMax=infinity", "MemorySwapMax=infinity"]
    );
    assert_eq!(on_v2(r#"{"cpu": {"shares": 1024}}"#), ["CPUWeight=100"]);
    assert_eq!(on_v2(r#"{"cpu": {"shares": 1024, "idle": 1}}"#), ["CPUWeight=0"]);
    let older = of_resources(&resources(r#"{"cpu": {"shares": 1024, "idle": 1}}"#), true, false);
    assert_eq!(shown(older.unwrap()), ["CPUWeight=100"]);
    assert_eq!(on_v2(r#"{"pids": {"limit": 7}}"#), ["TasksMax=7"]);
    assert_eq!(on_v2(r#"{"pids": {"limit": -1}}"#), ["TasksMax=infinity"]);
    let cpuset = r#"{"cpu": {"cpus": "0-1,9", "mems": "0"}}"#;
    assert_eq!(on_v2(cpuset), ["AllowedCPUs=[3, 2]", "AllowedMemoryNodes=[1]"]);
}

#[test]
fn limits_of_v1() {
    let all = r#"{"memory": {"limit": 1000, "swap": 1500}, "cpu": {"shares": 512}, "blockIO": {"weight": 20}}"#;
    assert_eq!(on_v1(all), ["MemoryLimit=1000", "CPUShares=512", "BlockIOWeight=20"]);
}

#[test]
fn quotas_are_whole_percents() {
    let period = "CPUQuotaPeriodUSec=100000";
    for (json, wanted) in [
        (r#"{"quota": 50000, "period": 100000}"#, vec![period, "CPUQuotaPerSecUSec=500000"]),
        (r#"{"quota": 50000}"#, vec!["CPUQuotaPerSecUSec=500000"]),
        (r#"{"quota": 12345, "period": 100000}"#, vec![period, "CPUQuotaPerSecUSec=130000"]),
        (r#"{"quota": -1, "period": 100000}"#, vec![period, "CPUQuotaPerSecUSec=infinity"]),
        (r#"{"period": 100000}"#, vec![period, "CPUQuotaPerSecUSec=infinity"]),
        (r#"{"quota": -1}"#, vec!["CPUQuotaPerSecUSec=infinity"]),
    ] {
        assert_eq!(on_v2(&format!(r#"{{"cpu": {json}}}"#)), wanted, "{json}");
    }
    let quota = |json: &str| rounded(&resources(json)).cpu.as_ref().and_then(|cpu| cpu.quota);
    assert_eq!(quota(r#"{"cpu": {"quota": 12345, "period": 100000}}"#), Some(13_000));
    assert_eq!(quota(r#"{"cpu": {"quota": 50000}}"#), Some(50_000));
    assert_eq!(quota(r#"{"cpu": {"quota": -1, "period": 7}}"#), Some(-1));
}

#[test]
fn files_of_v2_are_properties_too() {
    let files = |json: &str| on_v2(&format!(r#"{{"unified": {json}}}"#));
    let all = r#"{"cpu.max": "max", "cpu.weight": "20", "cpuset.cpus": "2", "memory.high": "max",
        "memory.oom.group": "1", "memory.swap.max": "5", "pids.max": "0"}"#;
    assert_eq!(
        files(all),
        [
            "CPUQuotaPeriodUSec=100000",
            "CPUQuotaPerSecUSec=infinity",
            "CPUWeight=20",
            "AllowedCPUs=[4]",
            "MemoryHigh=infinity",
            "MemorySwapMax=5",
            "TasksMax=1",
        ]
    );
    assert_eq!(files(r#"{"cpu.idle": "1", "cpu.weight": "5"}"#), ["CPUWeight=0"]);
    assert_eq!(files(r#"{"cpu.idle": "0"}"#), Vec::<String>::new());
    assert_eq!(files(r#"{"cpu.max": "5000 10000"}"#)[1], "CPUQuotaPerSecUSec=500000");
    for bad in [r#"{"memory.max": "5k"}"#, r#"{"cpu.max": ""}"#, r#"{"cpuset.cpus": "a"}"#] {
        let json = format!(r#"{{"unified": {bad}}}"#);
        assert!(of_resources(&resources(&json), true, true).is_err(), "{bad}");
    }
}

#[test]
fn device_rules() {
    let rules = |list: &str| format!(r#"{{"devices": [{list}]}}"#);
    let deny = r#"{"allow": false, "access": "rwm"}"#;
    let null = r#"{"allow": true, "type": "c", "major": 1, "minor": 3, "access": "rw"}"#;
    let tty = r#"{"allow": true, "type": "c", "major": 136, "access": "rwm"}"#;
    let block = r#"{"allow": true, "type": "b", "access": "m"}"#;
    let odd = r#"{"allow": true, "type": "c", "minor": 3, "access": "r"}"#;
    let all = r#"{"allow": true, "access": "rwm"}"#;
    let strict = ["DeviceAllow=", "DevicePolicy=strict"].map(String::from);
    let auto = ["DeviceAllow=", "DevicePolicy=auto"].map(String::from);
    let list = rules(&[deny, null, tty, block].join(","));
    let allowed = String::from("DeviceAllow=/dev/char/1:3 rw, char-136 rwm, block-* m");
    assert_eq!(on_v2(&list), [&strict[..], &[allowed]].concat());
    assert_eq!(on_v2(&rules(deny)), strict);
    assert_eq!(on_v2(&rules(all)), auto);
    let refuse = null.replace("true", "false");
    for unsaid in [rules(&format!("{all},{refuse}")), rules(&format!("{deny},{odd}"))] {
        assert_eq!(on_v2(&unsaid), auto);
        assert_eq!(on_v1(&unsaid), strict);
    }
}

#[test]
fn masks() {
    let bits = |list| mask("cpu.cpus", list).ok();
    assert_eq!(bits("0"), Some(vec![1]));
    assert_eq!(bits(" 1 , ,3-5,"), Some(vec![0b11_1010]));
    assert_eq!(bits("8-16"), Some(vec![0, 255, 1]));
    for bad in ["", ",", "5-3", "-1", "a", "99999999", "0-99999999999999999999"] {
        assert_eq!(bits(bad), None, "{bad}");
    }
}

proptest! {
    #[test]
    fn no_list_makes_the_mask_panic(list in "[-0-9, ]{0,20}") {
        let _ = mask("cpu.cpus", &list);
    }

    #[test]
    fn no_numbers_make_the_quota_panic(quota: i64, period: u64) {
        let cpu = Cpu { quota: Some(quota), period: Some(period), ..Cpu::default() };
        let resources = Resources { cpu: Some(cpu), ..Resources::default() };
        let _ = rounded(&resources);
        prop_assert!(of_resources(&resources, true, true).is_ok());
    }
}
