//! Configurations: what is wrong is found with its place, and nothing breaks the reader.

use flash_c2mpi::attributes::Attribute;
use flash_c2mpi::config::{Config, DEFAULT_KEY, SCHEMA, Strategy};
use flash_c2mpi::functions::FUNCTIONS;
use proptest::prelude::*;

#[track_caller]
fn faults(text: &str) -> Vec<String> {
    let report = Config::parse(text);
    assert!(report.config.is_none() && !report.faults.is_empty(), "{text}");
    report.faults.iter().map(ToString::to_string).collect()
}

#[test]
fn each_fault_has_its_line_and_column_and_all_are_found() {
    let text = r#"{
  "host_list": [{"host_name": "a", "max_slots": "none"}, {"port": 1}],
  "func_list": [
    {"func_alias": "MMM", "sw_fid": 12345},
    {"func_alias": "MMM", "sw_fid": "1", "platform_id": "moon"},
    {"func_alias": "", "sw_fid": "1"},
    {"sw_fid": "1", "func_repl": 0},
    {"func_alias": "B"},
    {"func_alias": "C", "pipeline": ["X", "C"], "sw_clid": "*"},
    7
  ],
  "platform_list": [{"platform_id": "p", "strategy": "pinned"}, {"platform_id": "q", "strategy": "fast"}, {"key": "ALL"}],
  "functions": []
}"#;
    let found = faults(text);
    for expected in [
        "2:49: max_slots: expected a whole number from 1 to 64, found \"none\"",
        "2:58: expected `host_name`, found none",
        "4:37: sw_fid: expected a text, found a number",
        "5:57: platform_id: expected one of `platform_list` (rr_scat, p), found `moon`",
        "6:20: func_alias: expected a text, found an empty one",
        "7:5: expected `func_alias`, found none",
        "7:34: func_repl: expected a whole number from 1 to 1024, found 0",
        "8:5: expected `sw_fid` or `sw_clid`",
        "9:25: expected `pipeline` or a kernel of its own, found both",
        "9:38: pipeline: expected an alias of `func_list`, found `X`",
        "10:5: expected an object in func_list, found a number",
        "12:21: expected `key` beside the strategy pinned",
        "12:98: strategy: expected one of round_robin, least_loaded, fastest, pinned, found `fast`",
        "12:107: expected `platform_id`, found none",
        "13:3: expected a member of the configuration",
    ] {
        assert!(found.iter().any(|fault| fault.starts_with(expected)), "no `{expected}` in {found:#?}");
    }
}

#[test]
fn what_is_no_json_has_its_place_too() {
    for (text, expected) in [
        ("", "1:1: expected JSON"),
        ("{\n  \"func_list\": [,]\n}", "2:17: expected JSON"),
        ("[]", "1:1: expected an object with `func_list`, found an array"),
        ("{\"func_list\": []} x", "1:19: expected JSON: trailing characters"),
        ("{\"func_list\": [], \"func_list\": []}", "1:19: the configuration has `func_list` twice"),
        ("{ // no comments\n}", "1:3: expected JSON"),
        ("{}", "1:1: expected `func_list`"),
    ] {
        let found = faults(text);
        assert!(found[0].starts_with(expected), "{text}: {found:?}");
    }
    // Deeper than any stack.
    let deep = "[".repeat(1_000_000);
    assert!(faults(&deep)[0].contains("recursion limit"));
}

#[test]
fn the_table_of_the_paper_is_read() {
    let text = r#"{
"host_list" : [
  {"host_name" : "edge-1.cidse.dhcp.asu.edu", "port" : "8000", "mode" : "ads_accel", "max_slots" : "1"},
  {"host_name" : "turing-4.cidse.dhcp.asu.edu", "port" : "8000", "mode" : "ads_accel", "max_slots" : "3"}
],
"func_list" : [
  {"func_alias" : "MMM", "sw_fid" : "12345", "func_repl" : "1", "platform_id" : "rr_scat"},
  {"func_alias" : "1DCONV", "sw_fid" : "123456789C", "platform_id" : "rr_scat"}
],
"platform_list" : []
}"#;
    let report = Config::parse(text);
    let config = report.config.unwrap();
    assert_eq!(config.parents(), 4);
    assert_eq!(config.functions[1].attributes.get(Attribute::SwFid), Some("123456789C"));
    let (function, platform) = config.claimed("MMM", &Default::default(), || false).unwrap();
    assert_eq!((function.repl, platform.strategy, &*platform.key), (1, Strategy::RoundRobin, DEFAULT_KEY));
    assert_eq!(report.warnings.len(), 4, "{:?}", report.warnings);
}

#[test]
fn without_a_configuration_there_are_the_functions_of_the_library() {
    let config = Config::default();
    let aliases: Vec<&str> = config.functions.iter().map(|function| &*function.alias).collect();
    assert_eq!(aliases, FUNCTIONS.each_ref().map(|function| function.alias));
    assert_eq!(config.parents(), 1);
}

#[test]
fn the_schema_has_what_the_reader_takes() {
    let schema: serde_json::Value = serde_json::from_str(SCHEMA).unwrap();
    let members = |list: &str| {
        let all = schema["properties"][list]["items"]["properties"].as_object().unwrap();
        all.keys().cloned().collect::<Vec<String>>()
    };
    for list in ["host_list", "func_list", "platform_list"] {
        // Each is known to the reader: a fault of it, if any, is of its value.
        for member in members(list) {
            let text = format!(r#"{{"func_list": [], "{list}": [{{"{member}": true}}]}}"#);
            let text = if list == "func_list" { text.replacen(r#""func_list": [], "#, "", 1) } else { text };
            let report = Config::parse(&text);
            assert!(
                report.faults.iter().all(|fault| !fault.text.contains("expected a member of")),
                "{list}.{member}: {:?}",
                report.faults
            );
        }
    }
    for attribute in Attribute::ALL {
        assert!(members("func_list").contains(&attribute.name().to_owned()), "{attribute:?}");
    }
}

/// JSON that is nearly a configuration.
fn nearly() -> impl Strategy_<Value = String> {
    let name = prop::sample::select(vec![
        "func_list",
        "host_list",
        "platform_list",
        "func_alias",
        "sw_fid",
        "sw_clid",
        "vid",
        "func_repl",
        "platform_id",
        "pipeline",
        "key",
        "strategy",
        "host_name",
        "max_slots",
        "port",
        "$schema",
        "other",
    ]);
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("\"MMM\"".to_owned()),
        Just("\"\"".to_owned()),
        Just("\"é\\u0041\\n\"".to_owned()),
        Just("\"pinned\"".to_owned()),
        any::<i64>().prop_map(|number| number.to_string()),
        Just("1e400".to_owned()),
    ];
    leaf.prop_recursive(5, 60, 6, move |inner| {
        let member = (name.clone(), inner.clone()).prop_map(|(name, value)| format!("\"{name}\":\n {value}"));
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(|all| format!("[{}]", all.join(", "))),
            prop::collection::vec(member, 0..6).prop_map(|all| format!("{{{}}}", all.join(","))),
        ]
    })
}

use proptest::strategy::Strategy as Strategy_;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nothing_breaks_the_reader_and_places_are_in_the_text(text in nearly(), cut in 0usize..400, junk in any::<u8>()) {
        let mut torn = text.clone().into_bytes();
        if let Some(byte) = torn.get_mut(cut) {
            *byte = junk;
        }
        for text in [text, String::from_utf8_lossy(&torn).into_owned()] {
            let report = Config::parse(&text);
            prop_assert_eq!(report.config.is_none(), !report.faults.is_empty());
            prop_assert!(report.faults.is_sorted_by_key(|fault| (fault.line, fault.column)), "{:?}", report.faults);
            let lines = text.lines().count().max(1) + 1;
            for fault in report.faults.iter().chain(&report.warnings) {
                prop_assert!((1..=lines).contains(&fault.line) && fault.column >= 1, "{} in {}", fault, text);
            }
        }
    }
}
