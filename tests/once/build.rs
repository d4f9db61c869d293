//! Writes functions of random statements: `tests/random.rs` compares what they give on the CPU and on
//! devices, bit for bit. Their seed is fixed, and they are few: `cargo xtask soak functions` makes others,
//! and more.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs, io};

/// A number in the environment of the build.
fn number(variable: &str, default: u64) -> u64 {
    println!("cargo::rerun-if-env-changed={variable}");
    let Ok(text) = env::var(variable) else { return default };
    text.parse().unwrap_or_else(|_| panic!("{variable}: expected a number, found `{text}`"))
}

/// The types of variables, and literals of each.
const TYPES: [(&str, [&str; 4]); 8] = [
    ("i32", ["0", "-7", "2147483647", "12345"]),
    ("u32", ["0", "3", "4294967295", "65536"]),
    ("i64", ["-1", "5", "-9223372036854775807", "1000000007"]),
    ("u64", ["0", "17", "18446744073709551615", "4096"]),
    ("u8", ["0", "1", "255", "100"]),
    ("i16", ["-300", "2", "32767", "-32768"]),
    ("f32", ["0.0", "-1.5", "3.0e7", "0.1"]),
    ("f64", ["1.0", "-0.25", "1.0e12", "0.3"]),
];

struct Writer {
    state: u64,
    /// Variables, by type.
    variables: Vec<(usize, String)>,
    text: String,
    names: usize,
}

impl Writer {
    fn below(&mut self, n: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 33) as usize % n
    }

    fn is_float(ty: usize) -> bool {
        TYPES[ty].0.starts_with('f')
    }

    fn leaf(&mut self, ty: usize) -> String {
        let ours: Vec<String> =
            self.variables.iter().filter(|(of, _)| *of == ty).map(|(_, name)| name.clone()).collect();
        match ours.is_empty() || self.below(5) == 0 {
            true => {
                let literal = self.below(4);
                format!("({}_{})", TYPES[ty].1[literal], TYPES[ty].0)
            }
            false => ours[self.below(ours.len())].clone(),
        }
    }

    /// An expression of a type. Integers wrap, since the CPU's `+` may panic; divisors are from 1 to 256.
    fn expression(&mut self, ty: usize, depth: usize) -> String {
        if depth == 0 {
            return self.leaf(ty);
        }
        let (name, way) = (TYPES[ty].0, self.below(12));
        let a = self.expression(ty, depth - 1);
        if way == 0 {
            let from = self.below(TYPES.len());
            let from = self.expression(from, depth - 1);
            return format!("({from} as {name})");
        }
        if way == 1 {
            let (condition, b) = (self.condition(depth - 1), self.expression(ty, depth - 1));
            return format!("(if {condition} {{ {a} }} else {{ {b} }})");
        }
        let b = self.expression(ty, depth - 1);
        if Self::is_float(ty) {
            return match way {
                2 | 3 => format!("({a} + {b})"),
                4 => format!("({a} - {b})"),
                5 => format!("({a} * {b})"),
                6 => format!("({a} / {b})"),
                7 => format!("{a}.abs().sqrt()"),
                8 => format!("{a}.mul_add({b}, {a})"),
                _ => format!("(-{a})"),
            };
        }
        match way {
            2 => format!("{a}.wrapping_add({b})"),
            3 => format!("{a}.wrapping_sub({b})"),
            4 => format!("{a}.wrapping_mul({b})"),
            5 => format!("({a} / ((({b} as u8) as {name} & 63) + 1))"),
            6 => format!("({a} % ((({b} as u8) as {name} & 63) + 1))"),
            7 => format!("({a} & {b} ^ !{a})"),
            8 => format!("{a}.wrapping_shl({b} as u32)"),
            9 => format!("{a}.checked_add({b}).unwrap_or({a})"),
            10 => format!(
                "(match {a}.checked_sub({b}) {{ Some(x) if x > {a} => x, Some(x) => x ^ {a}, None => {b} }})"
            ),
            _ => format!("{a}.wrapping_shr({b} as u32)"),
        }
    }

    fn condition(&mut self, depth: usize) -> String {
        let ty = self.below(TYPES.len());
        let (a, b) = (self.expression(ty, depth), self.expression(ty, depth));
        let operator = ["<", "<=", "==", "!=", ">", ">="][self.below(6)];
        match self.below(5) {
            0 => format!("({a} {operator} {b} && {b} == {a})"),
            1 => format!("({a} {operator} {b} || !({b} < {a}))"),
            _ => format!("({a} {operator} {b})"),
        }
    }

    fn name(&mut self) -> String {
        self.names += 1;
        format!("v{}", self.names)
    }

    /// Statements; variables of blocks are not seen behind them.
    fn statements(&mut self, count: usize, depth: usize) {
        let seen = self.variables.len();
        for _ in 0..count {
            let ty = self.below(TYPES.len());
            match self.below(if depth == 0 { 2 } else { 7 }) {
                0 | 1 => {
                    let (name, value) = (self.name(), self.expression(ty, 2));
                    let _ = writeln!(self.text, "let {name} = {value};");
                    self.variables.push((ty, name));
                }
                2 => {
                    let condition = self.condition(1);
                    let _ = writeln!(self.text, "if {condition} {{");
                    self.statements(2, depth - 1);
                    self.assign();
                    self.text.push_str("} else {\n");
                    self.assign();
                    self.text.push_str("}\n");
                }
                3 => {
                    let (name, begin, end) = (self.name(), self.below(5), 5 + self.below(5));
                    let form = ["BEGIN..END", "BEGIN..=END", "(BEGIN..END).rev()", "(BEGIN..END).step_by(3)"]
                        [self.below(4)];
                    let form = form.replace("BEGIN", &begin.to_string()).replace("END", &end.to_string());
                    let _ = writeln!(self.text, "for {name} in {form} {{");
                    let _ = writeln!(self.text, "sum = sum.rotate_left(3) ^ {name} as u64;");
                    let condition = self.condition(1);
                    let jump = ["continue", "break"][self.below(2)];
                    let _ = writeln!(self.text, "if {condition} {{ {jump}; }}");
                    self.assign();
                    self.text.push_str("}\n");
                }
                4 => {
                    let value = self.expression(1, 1);
                    let _ = writeln!(self.text, "match {value} % 7 {{ 0 | 3 => {{");
                    self.assign();
                    self.text.push_str("} 4..=5 => {\n");
                    self.statements(1, depth - 1);
                    self.assign();
                    self.text.push_str("} rest => sum ^= u64::from(rest), }\n");
                }
                5 => {
                    let condition = self.condition(1);
                    let value = self.expression(3, 1);
                    let _ = writeln!(self.text, "if {condition} && sum % 5 == 0 {{ return sum ^ {value}; }}");
                }
                _ => self.assign(),
            }
        }
        self.variables.truncate(seen);
    }

    /// Mixes a value into the sum. The bits of a NaN are not fixed.
    fn assign(&mut self) {
        let ty = self.below(TYPES.len());
        let value = self.expression(ty, 2);
        let bits = match TYPES[ty].0 {
            "f32" | "f64" => {
                format!("{{ let x = {value}; if x.is_nan() {{ 1 }} else {{ x.to_bits() as u64 }} }}")
            }
            _ => format!("{value} as u64"),
        };
        let _ = writeln!(self.text, "sum = (sum ^ {bits}).wrapping_mul(0x9E37_79B9_7F4A_7C15);");
    }
}

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    let kernels = number("FLASH_RANDOM_KERNELS", 3);
    let functions = number("FLASH_RANDOM_FUNCTIONS", 20);
    let state = number("FLASH_RANDOM_SEED", 0).wrapping_add(0x5EED_0033);
    let mut writer = Writer { state, variables: Vec::new(), text: String::new(), names: 0 };
    for kernel in 0..kernels {
        for function in 0..functions {
            let parameters =
                TYPES.iter().map(|(ty, _)| format!("p_{ty}: {ty}")).collect::<Vec<_>>().join(", ");
            writer.variables =
                TYPES.iter().enumerate().map(|(ty, (name, _))| (ty, format!("p_{name}"))).collect();
            let _ = writeln!(
                writer.text,
                "#[kernel_fn]\nfn f_{kernel}_{function}({parameters}) -> u64 {{\nlet mut sum: u64 = 1;"
            );
            writer.statements(5, 2);
            writer.assign();
            writer.text.push_str("sum\n}\n");
        }
        let arms: String = (0..functions)
            .map(|function| {
                let arguments =
                    "a as i32, (a >> 7) as u32, a, a as u64 % 1000003, a as u8, (a >> 3) as i16, x as f32, x";
                format!("{function} => f_{kernel}_{function}({arguments}),\n")
            })
            .collect();
        let _ = writeln!(
            writer.text,
            "#[kernel_fn]\nfn any_{kernel}(function: u32, a: i64, x: f64) -> u64 {{ match function {{ {arms} _ => 0 }} }}
random_kernel! {{ any_{kernel} Random{kernel} Random{kernel}Item Random{kernel}Once \"once.random{kernel}\" }}"
        );
    }
    let runs: String = (0..kernels).map(|kernel| format!("Random{kernel}Once::run(rt, values), ")).collect();
    let _ = writeln!(
        writer.text,
        "const FUNCTIONS: u32 = {functions};
pub fn all(rt: &flash::RuntimeObj, values: &Values) -> Vec<u64> {{ [{runs}].concat() }}"
    );
    let out = env::var_os("OUT_DIR").expect("cargo runs this");
    fs::write(Path::new(&out).join("random.rs"), writer.text)
}
