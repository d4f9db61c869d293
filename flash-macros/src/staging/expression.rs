//! Expressions: as values, as places, and jumps.

use super::Stager;
use super::matching::{conditions, has_let};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    BinOp, Expr, ExprCall, ExprClosure, ExprForLoop, ExprIf, ExprLit, ExprMacro, ExprMethodCall, ExprPath,
    ExprRange, Lit, Pat, PathArguments, RangeLimits, Token, UnOp,
};

/// Methods of iterators and slices, in whose place a loop stands.
const OF_ITERATORS: &[&str] = &[
    "iter",
    "iter_mut",
    "into_iter",
    "zip",
    "sum",
    "fold",
    "enumerate",
    "chunks",
    "windows",
    "for_each",
    "take",
    "skip",
    "any",
    "all",
    "collect",
    "product",
    "copied",
    "cloned",
];

/// Methods of iterators, `Option`s and `Result`s that take a closure.
const WITH_CLOSURES: &[&str] = &[
    "map",
    "filter",
    "and_then",
    "or_else",
    "map_or",
    "map_or_else",
    "map_err",
    "ok_or_else",
    "unwrap_or_else",
    "is_some_and",
    "is_none_or",
    "is_ok_and",
    "is_err_and",
];

const OF_RESULTS: &str =
    "`?` stands in a function that returns `Result<T, E>` or `Option<T>`, and takes one of these";

const CONSTANT_ERROR: &str = "the error of a device is a constant, whose words the host has: a text, a number, or a path to a constant or to a variant without fields";

/// The expression inside parentheses and invisible groups.
pub(super) fn unparenthesised(expression: &Expr) -> &Expr {
    match expression {
        Expr::Paren(paren) => unparenthesised(&paren.expr),
        Expr::Group(group) => unparenthesised(&group.expr),
        expression => expression,
    }
}

/// A variable of the second function alone: no name of the kernel's is it.
pub(super) fn own(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

/// Whether an expression never has a value.
pub(super) fn diverges(expression: &Expr) -> bool {
    match unparenthesised(expression) {
        Expr::Return(_) | Expr::Break(_) | Expr::Continue(_) => true,
        Expr::Macro(call) => is_panic(call),
        _ => false,
    }
}

/// Whether a path names a function, and not a constant.
fn is_function(path: &ExprPath) -> bool {
    path.path.segments.last().is_some_and(|last| last.ident.to_string().starts_with(char::is_lowercase))
}

fn is_panic(call: &ExprMacro) -> bool {
    ["panic", "unreachable", "todo", "unimplemented"].iter().any(|name| call.mac.path.is_ident(name))
}

impl Stager<'_> {
    /// An expression's value, which does not change with the places in it.
    pub(super) fn value(&mut self, expression: &Expr) -> TokenStream {
        let staging = self.staging;
        let span = expression.span();
        if let Some(jump) = self.jump(expression) {
            return quote!({ #jump #staging::never() });
        }
        match expression {
            Expr::Paren(paren) => self.value(&paren.expr),
            Expr::Group(group) => self.value(&group.expr),
            Expr::Lit(literal) => self.literal(literal, false),
            Expr::Path(path) if self.scope.closure(expression).is_some() => {
                self.refuse(path, "a closure is only called where it is known")
            }
            Expr::Path(_) | Expr::Field(_) | Expr::Index(_) => {
                let place = self.place(expression);
                if self.scope.is_lent(expression) {
                    // A reference is the place itself, also where it is passed on.
                    return quote_spanned!(span=> ::core::clone::Clone::clone(&#place));
                }
                match self.is_constant(expression) {
                    true => place,
                    false => quote_spanned!(span=> #staging::Value::read(&#place)),
                }
            }
            Expr::Unary(unary) => match (&unary.op, unparenthesised(&unary.expr)) {
                (UnOp::Neg(_), Expr::Lit(literal)) => self.literal(literal, true),
                (UnOp::Deref(_), _) => {
                    let place = self.place(&unary.expr);
                    quote_spanned!(span=> #staging::Value::read(&#place))
                }
                (UnOp::Not(_), _) => self.call_of(span, "not", &[&unary.expr]),
                _ => self.call_of(span, "neg", &[&unary.expr]),
            },
            Expr::Reference(reference) => {
                let place = self.place(&reference.expr);
                quote_spanned!(span=> ::core::clone::Clone::clone(&#place))
            }
            Expr::Binary(binary) => self.binary(&binary.left, &binary.op, &binary.right),
            Expr::Assign(assign) => match unparenthesised(&assign.left) {
                Expr::Infer(_) => {
                    let value = self.value(&assign.right);
                    quote!({ let _ = #value; })
                }
                _ => {
                    let (place, value) = (self.place(&assign.left), self.value(&assign.right));
                    let own = own("value");
                    quote_spanned!(span=> { let #own = #value; #staging::Value::assign(&#place, &#own) })
                }
            },
            Expr::Cast(cast) => {
                let (value, ty) = (self.value(&cast.expr), &cast.ty);
                quote_spanned!(span=> #staging::cast::<_, #ty>(#value))
            }
            Expr::If(branch) => self.branch(branch),
            Expr::Match(matched) => self.matched(matched),
            Expr::Block(block) => match &block.label {
                None => self.block(&block.block),
                Some(label) => self.refuse(label, "write an `if`, or a function with `return`"),
            },
            Expr::While(_) | Expr::Loop(_) | Expr::ForLoop(_) => self.repeated(expression),
            Expr::Call(call) => self.call(call),
            Expr::MethodCall(call) => self.method(call),
            Expr::Macro(call) => self.assertion(call),
            Expr::Tuple(tuple) => {
                let parts: Vec<TokenStream> = tuple.elems.iter().map(|part| self.value(part)).collect();
                match parts.is_empty() {
                    true => quote!(()),
                    false => quote!((#(#parts,)*)),
                }
            }
            Expr::Array(array) => {
                let parts: Vec<TokenStream> = array.elems.iter().map(|part| self.value(part)).collect();
                quote_spanned!(span=> #staging::array([#(#parts),*]))
            }
            Expr::Repeat(repeat) => {
                let (value, len) = (self.value(&repeat.expr), &repeat.len);
                quote_spanned!(span=> #staging::repeat::<_, { #len }>(#value))
            }
            Expr::Struct(structure) => {
                if let Some(rest) = &structure.rest {
                    return self.refuse(rest, "write all fields");
                }
                let fields: Vec<TokenStream> = structure
                    .fields
                    .iter()
                    .map(|field| {
                        let (member, value) = (&field.member, self.value(&field.expr));
                        quote!(#member: #value)
                    })
                    .collect();
                let path = &structure.path;
                quote_spanned!(span=> { type FlashStaged = #staging::Of<#path>; FlashStaged { #(#fields),* } })
            }
            Expr::Range(range) => self.refuse(range, "a range stands behind `for .. in` only; for a part of an array pass its bounds"),
            Expr::Closure(closure) => self.refuse(closure, "give the closure a name by `let`, and call it"),
            Expr::Unsafe(block) => self.refuse(block, "kernels for devices are safe code: write a `Scatter`, or a kernel in C"),
            Expr::Try(attempt) => match (&self.result, self.value_of_result.clone()) {
                (Some(_), Some(of)) => {
                    let value = self.value(&attempt.expr);
                    quote_spanned!(span=> #staging::attempt::<#of, _>(#value))
                }
                _ => self.refuse(attempt, OF_RESULTS),
            },
            other => self.refuse(other, "numbers, tuples, arrays, structs, `if`, `match`, loops and functions with `#[kernel_fn]` have one"),
        }
    }

    /// An expression as the place that it names; of any other, its value.
    fn place(&mut self, expression: &Expr) -> TokenStream {
        let staging = self.staging;
        match expression {
            Expr::Paren(paren) => self.place(&paren.expr),
            Expr::Group(group) => self.place(&group.expr),
            Expr::Path(path) => match self.scope.variable(expression) {
                Some(name) => quote!(#name),
                None if path.path.is_ident("None") => quote_spanned!(path.span()=> #staging::none()),
                None => quote_spanned!(path.span()=> #staging::constant(#path)),
            },
            Expr::Field(field) => {
                let (base, member) = (self.place(&field.base), &field.member);
                quote_spanned!(field.span()=> #base.#member)
            }
            Expr::Index(index) => {
                if let Expr::Range(range) = unparenthesised(&index.index) {
                    let (base, [begin, end]) = (self.place(&index.expr), self.bounds(range));
                    return quote_spanned!(index.span()=> #staging::part(&#base, #begin, #end));
                }
                let (base, at) = (self.place(&index.expr), self.value(&index.index));
                quote_spanned!(index.span()=> #staging::index(&#base, #at))
            }
            Expr::Unary(unary) if matches!(unary.op, UnOp::Deref(_)) => self.place(&unary.expr),
            Expr::Tuple(tuple) => {
                let parts: Vec<TokenStream> = tuple.elems.iter().map(|part| self.place(part)).collect();
                quote!((#(::core::clone::Clone::clone(&#parts),)*))
            }
            other => self.value(other),
        }
    }

    /// The bounds of a part of an array, each an `Option`.
    fn bounds(&mut self, range: &ExprRange) -> [TokenStream; 2] {
        if let (RangeLimits::Closed(_), Some(end)) = (&range.limits, &range.end) {
            let refused = self.refuse(end, "a part ends before an index: write `begin..end + 1`");
            return [quote!(::core::option::Option::None), refused];
        }
        [&range.start, &range.end].map(|bound| match bound {
            Some(bound) => {
                let bound = self.value(bound);
                quote!(::core::option::Option::Some(#bound))
            }
            None => quote!(::core::option::Option::None),
        })
    }

    /// The only argument, if it is an error of the program, and not of the text.
    fn error<'e>(&self, arguments: &'e Punctuated<Expr, Token![,]>) -> Option<&'e Expr> {
        let error = arguments.first().map(unparenthesised).filter(|_| arguments.len() == 1)?;
        (matches!(error, Expr::Lit(_)) || self.is_constant(error)).then_some(error)
    }

    /// `Err(..)`.
    fn err(&mut self, call: &ExprCall) -> TokenStream {
        let staging = self.staging;
        match self.error(&call.args) {
            Some(error) => quote_spanned!(call.span()=> #staging::err(&#error)),
            None => self.refuse(&call.args, CONSTANT_ERROR),
        }
    }

    /// Whether an expression names a constant of the program.
    fn is_constant(&self, expression: &Expr) -> bool {
        matches!(expression, Expr::Path(_)) && self.scope.variable(expression).is_none()
    }

    fn literal(&mut self, literal: &ExprLit, negative: bool) -> TokenStream {
        let staging = self.staging;
        let minus = negative.then(|| quote!(-));
        match &literal.lit {
            Lit::Int(_) | Lit::Float(_) | Lit::Bool(_) => {
                quote_spanned!(literal.span()=> #staging::literal(#minus #literal))
            }
            other => self.refuse(other, "the values of devices are numbers and `bool`"),
        }
    }

    fn call_of(&mut self, span: Span, function: &str, arguments: &[&Expr]) -> TokenStream {
        let staging = self.staging;
        let function = Ident::new(function, span);
        let arguments: Vec<TokenStream> = arguments.iter().map(|argument| self.value(argument)).collect();
        quote_spanned!(span=> #staging::#function(#(#arguments),*))
    }

    fn binary(&mut self, left: &Expr, operator: &BinOp, right: &Expr) -> TokenStream {
        let staging = self.staging;
        let span = operator.span();
        let (name, assigns) = match operator {
            BinOp::Add(_) => ("add", false),
            BinOp::Sub(_) => ("sub", false),
            BinOp::Mul(_) => ("mul", false),
            BinOp::Div(_) => ("div", false),
            BinOp::Rem(_) => ("rem", false),
            BinOp::BitAnd(_) => ("bit_and", false),
            BinOp::BitOr(_) => ("bit_or", false),
            BinOp::BitXor(_) => ("bit_xor", false),
            BinOp::Shl(_) => ("shl", false),
            BinOp::Shr(_) => ("shr", false),
            BinOp::Eq(_) => ("eq", false),
            BinOp::Ne(_) => ("ne", false),
            BinOp::Lt(_) => ("lt", false),
            BinOp::Le(_) => ("le", false),
            BinOp::Gt(_) => ("gt", false),
            BinOp::Ge(_) => ("ge", false),
            BinOp::And(_) | BinOp::Or(_) => {
                let (left, right) = (self.value(left), self.value(right));
                let function = if matches!(operator, BinOp::And(_)) { quote!(and) } else { quote!(or) };
                return quote_spanned!(span=> #staging::#function(#left, || #right));
            }
            BinOp::AddAssign(_) => ("add", true),
            BinOp::SubAssign(_) => ("sub", true),
            BinOp::MulAssign(_) => ("mul", true),
            BinOp::DivAssign(_) => ("div", true),
            BinOp::RemAssign(_) => ("rem", true),
            BinOp::BitAndAssign(_) => ("bit_and", true),
            BinOp::BitOrAssign(_) => ("bit_or", true),
            BinOp::BitXorAssign(_) => ("bit_xor", true),
            BinOp::ShlAssign(_) => ("shl", true),
            BinOp::ShrAssign(_) => ("shr", true),
            other => return self.refuse(other, "write an operator of numbers"),
        };
        if !assigns {
            return self.call_of(span, name, &[left, right]);
        }
        let function = Ident::new(name, span);
        let (value, place) = (self.value(right), self.place(left));
        let (by, to) = (own("by"), own("to"));
        quote_spanned! {span=> {
            let #by = #value;
            let #to = ::core::clone::Clone::clone(&#place);
            #staging::Value::assign(&#to, &#staging::#function(#staging::Value::read(&#to), #by))
        }}
    }

    fn branch(&mut self, branch: &ExprIf) -> TokenStream {
        let staging = self.staging;
        let conditions = conditions(&branch.cond);
        if has_let(&conditions) {
            let otherwise = branch.else_branch.as_ref().map(|(_, otherwise)| self.value(otherwise));
            let otherwise = otherwise.unwrap_or_else(|| quote!(()));
            return self.if_all(&conditions, |stager| stager.block(&branch.then_branch), &otherwise);
        }
        let condition = self.value(&branch.cond);
        let then = self.block(&branch.then_branch);
        let otherwise = match &branch.else_branch {
            Some((_, otherwise)) => self.value(otherwise),
            None => quote!(()),
        };
        quote_spanned!(branch.if_token.span()=> #staging::branch(#condition, || #then, || #otherwise))
    }

    fn repeated(&mut self, expression: &Expr) -> TokenStream {
        let staging = self.staging;
        let label = match expression {
            Expr::While(repeated) => &repeated.label,
            Expr::Loop(repeated) => &repeated.label,
            Expr::ForLoop(repeated) => &repeated.label,
            _ => &None,
        };
        if let Some(label) = label {
            return self.refuse(
                label,
                "labels have none: use a variable that ends the outer loop, or a function with `return`",
            );
        }
        match expression {
            Expr::While(repeated) if has_let(&conditions(&repeated.cond)) => {
                let (conditions, end) = (conditions(&repeated.cond), quote!(#staging::break_loop()));
                let body = self.if_all(&conditions, |stager| stager.unit_block(&repeated.body), &end);
                quote_spanned!(repeated.while_token.span()=> #staging::endless(|| #body))
            }
            Expr::While(repeated) => {
                let (condition, body) = (self.value(&repeated.cond), self.unit_block(&repeated.body));
                quote_spanned!(repeated.while_token.span()=> #staging::while_loop(|| #condition, || #body))
            }
            Expr::Loop(repeated) => {
                let body = self.unit_block(&repeated.body);
                quote_spanned!(repeated.loop_token.span()=> #staging::endless(|| #body))
            }
            Expr::ForLoop(repeated) => self.counted(repeated),
            other => self.value(other),
        }
    }

    fn counted(&mut self, repeated: &ExprForLoop) -> TokenStream {
        let staging = self.staging;
        let steps = self.steps(&repeated.expr);
        let array = match (&steps, unparenthesised(&repeated.expr)) {
            (Some(_), _) => None,
            (None, Expr::MethodCall(call)) if call.method == "iter" && call.args.is_empty() => {
                Some(self.place(&call.receiver))
            }
            (None, Expr::Reference(reference)) => Some(self.place(&reference.expr)),
            (None, array) => Some(self.place(array)),
        };
        let hint = match &*repeated.pat {
            Pat::Ident(name) => crate::definition_name(&name.ident),
            _ => "i".to_owned(),
        };
        self.scope.enter();
        let item = own("item");
        let binding = self.binding(&repeated.pat, None, quote!(#item), false);
        let body = self.unit_block(&repeated.body);
        self.scope.leave();
        let body = quote!(|#item| { #binding #body });
        let span = repeated.for_token.span();
        match (steps, array) {
            (Some(steps), _) => quote_spanned!(span=> #staging::for_loop(#steps, #hint, #body)),
            (None, array) => {
                let own = own("array");
                quote_spanned! {span=> {
                    let #own = ::core::clone::Clone::clone(&#array);
                    #staging::for_each(&#own, #own.len(), #hint, #body)
                }}
            }
        }
    }

    /// A range, from its first or its last value on.
    fn steps(&mut self, expression: &Expr) -> Option<TokenStream> {
        let staging = self.staging;
        match unparenthesised(expression) {
            Expr::Range(ExprRange { start: Some(start), limits, end: Some(end), .. }) => {
                let (start, end) = (self.value(start), self.value(end));
                let inclusive = matches!(limits, RangeLimits::Closed(_));
                Some(quote_spanned!(expression.span()=> #staging::range(#start, #end, #inclusive)))
            }
            Expr::Range(range) => Some(self.refuse(range, "a range of a `for` has a begin and an end")),
            Expr::MethodCall(call) if call.method == "rev" || call.method == "step_by" => {
                let (steps, method) = (self.steps(&call.receiver)?, &call.method);
                let arguments: Vec<TokenStream> =
                    call.args.iter().map(|argument| self.value(argument)).collect();
                Some(quote_spanned!(call.span()=> #steps.#method(#(#arguments),*)))
            }
            _ => None,
        }
    }

    fn call(&mut self, call: &ExprCall) -> TokenStream {
        let staging = self.staging;
        if matches!(unparenthesised(&call.func), Expr::Path(function) if function.path.is_ident("Err")) {
            return self.err(call);
        }
        let arguments: Vec<TokenStream> = call.args.iter().map(|argument| self.value(argument)).collect();
        if let Some(closure) = self.scope.closure(&call.func) {
            return quote_spanned!(call.span()=> #closure(#(#arguments),*));
        }
        let Expr::Path(function) = unparenthesised(&call.func) else {
            return self.refuse(&call.func, "call a function with `#[kernel_fn]`, or a closure, by its name");
        };
        if let Some((ty, name)) = self.number_before(&function.path) {
            let (first, rest) = match arguments.split_first() {
                Some(parts) => parts,
                None => return self.refuse(call, "write the constant itself"),
            };
            return match name.to_string().as_str() {
                "from" | "of" => quote_spanned!(call.span()=> #staging::cast::<_, #ty>(#first)),
                "from_bits" => quote_spanned!(call.span()=> <#ty as #staging::FromBits>::from_bits(#first)),
                _ => {
                    let own = own("first");
                    quote_spanned!(call.span()=> { let #own: #staging::Of<#ty> = #first; #own.#name(#(#rest),*) })
                }
            };
        }
        let Some(last) = function.path.segments.last().filter(|_| function.qself.is_none()) else {
            return self.refuse(function, "call a function with `#[kernel_fn]` by its path");
        };
        if function.path.is_ident("Ok") {
            return quote_spanned!(call.span()=> #staging::ok(#(#arguments),*));
        }
        if function.path.is_ident("Some") {
            return quote_spanned!(call.span()=> #staging::some(#(#arguments),*));
        }
        if last.ident.to_string().starts_with(char::is_uppercase) {
            return self.refuse(function, "a struct of a kernel has named fields: write `Type { x: .. }`");
        }
        let generics = match &last.arguments {
            PathArguments::AngleBracketed(generics) => Some(generics.clone()),
            _ => None,
        };
        let mut path = function.path.clone();
        if let Some(last) = path.segments.last_mut() {
            last.arguments = PathArguments::None;
        }
        let generics = generics.map(|mut generics| {
            generics.colon2_token = Some(<Token![::]>::default());
            generics
        });
        quote_spanned!(call.span()=> #path::stage #generics (#(#arguments),*))
    }

    fn method(&mut self, call: &ExprMethodCall) -> TokenStream {
        if self.scope.is_team(unparenthesised(&call.receiver)) {
            return self.of_team(call);
        }
        let name = call.method.to_string();
        if OF_ITERATORS.contains(&name.as_str()) {
            return self.refuse(&call.method, "iterators have none: write `for i in 0..n`");
        }
        if WITH_CLOSURES.contains(&name.as_str()) {
            return self
                .refuse(&call.method, "methods that take a closure have none: write a `for`, or a `match`");
        }
        match name.as_str() {
            "clone" if call.args.is_empty() => return self.value(&call.receiver),
            "into" => return self.refuse(&call.method, "write `as`, or `f64::from(x)`"),
            "slice" => {
                let range = call.args.first().map(unparenthesised);
                let Some(Expr::Range(range)) = range.filter(|_| call.args.len() == 1) else {
                    return self.refuse(&call.args, "write the range, as in `slice(begin..end)`");
                };
                let (receiver, [begin, end]) = (self.place(&call.receiver), self.bounds(range));
                return quote_spanned!(call.method.span()=> #receiver.slice(#begin, #end));
            }
            "ok_or" => {
                let receiver = self.place(&call.receiver);
                return match self.error(&call.args) {
                    Some(error) => quote_spanned!(call.method.span()=> #receiver.ok_or(&#error)),
                    None => self.refuse(&call.args, CONSTANT_ERROR),
                };
            }
            "stretch" | "was" => {
                return self.refuse(
                    &call.method,
                    "a part of an array in all its axes has none: use single elements, by `get` or `at`",
                );
            }
            _ => {}
        }
        let receiver = self.place(&call.receiver);
        let arguments: Vec<TokenStream> = call.args.iter().map(|argument| self.value(argument)).collect();
        let (method, generics) = (&call.method, &call.turbofish);
        quote_spanned!(call.method.span()=> #receiver.#method #generics (#(#arguments),*))
    }

    /// An operation of a team, with the closures that it calls.
    fn of_team(&mut self, call: &ExprMethodCall) -> TokenStream {
        let receiver = self.place(&call.receiver);
        let arguments: Vec<TokenStream> = call
            .args
            .iter()
            .map(|argument| match unparenthesised(argument) {
                Expr::Closure(closure) => self.closure(closure),
                Expr::Path(path) if self.is_constant(argument) && is_function(path) => self.named(path),
                argument => self.value(argument),
            })
            .collect();
        let (method, generics) = (&call.method, &call.turbofish);
        quote_spanned!(call.method.span()=> #receiver.#method #generics (#(#arguments),*))
    }

    /// A function of the program, in the place of a closure.
    fn named(&mut self, function: &ExprPath) -> TokenStream {
        if self.number_before(&function.path).is_some() {
            return self.refuse(function, "call it in a closure, as in `|a, b| a.max(b)`");
        }
        let mut path = function.path.clone();
        let generics = path.segments.last_mut().map(|last| std::mem::take(&mut last.arguments));
        quote_spanned!(function.span()=> #path::stage #generics)
    }

    /// The closure of a `let`, or of an operation.
    pub(super) fn closure(&mut self, closure: &ExprClosure) -> TokenStream {
        self.scope.enter();
        let (mut inputs, mut bindings) = (Vec::new(), Vec::new());
        let names = self.own(closure.inputs.len());
        for (input, name) in closure.inputs.iter().zip(&names) {
            let (pattern, ty) = match input {
                Pat::Type(typed) => (&*typed.pat, Some(&*typed.ty)),
                pattern => (pattern, None),
            };
            let declared = ty.map(|ty| self.of(ty)).map(|ty| quote!(: #ty));
            inputs.push(quote!(#name #declared));
            bindings.push(self.binding(pattern, None, quote!(#name), false));
        }
        let outer = self.result.take();
        let body = self.value(&closure.body);
        self.result = outer;
        self.scope.leave();
        let output = match &closure.output {
            syn::ReturnType::Default => None,
            syn::ReturnType::Type(_, ty) => {
                let ty = self.of(ty);
                Some(quote!(-> #ty))
            }
        };
        quote_spanned!(closure.span()=> |#(#inputs),*| #output { #(#bindings)* #body })
    }

    /// `return`, `break`, `continue` and `panic!`, as statements.
    pub(super) fn jump(&mut self, expression: &Expr) -> Option<TokenStream> {
        let staging = self.staging;
        let span = expression.span();
        Some(match expression {
            Expr::Return(jump) => {
                let Some(result) = self.result.clone() else {
                    return Some(
                        self.refuse(jump, "a closure has no `return`: write a function with `#[kernel_fn]`"),
                    );
                };
                let value = jump.expr.as_ref().map_or_else(|| quote!(()), |value| self.value(value));
                quote_spanned!(span=> #staging::return_value::<#result>(#value);)
            }
            Expr::Break(jump) => match (&jump.label, &jump.expr) {
                (None, None) => quote_spanned!(span=> #staging::break_loop();),
                (Some(label), _) => self.refuse(
                    label,
                    "labels have none: use a variable that ends the outer loop, or a function with `return`",
                ),
                (None, Some(value)) => self.refuse(value, "write it into a variable before `break`"),
            },
            Expr::Continue(jump) => match &jump.label {
                None => quote_spanned!(span=> #staging::continue_loop();),
                Some(label) => {
                    self.refuse(label, "labels have none: use a variable that ends the inner loop")
                }
            },
            Expr::Macro(call) if is_panic(call) => {
                let text = panic_text(call.mac.tokens.clone(), "the kernel panicked");
                quote_spanned!(span=> #staging::panics(#text);)
            }
            _ => return None,
        })
    }

    /// `assert!` and its kin.
    fn assertion(&mut self, call: &ExprMacro) -> TokenStream {
        let staging = self.staging;
        let name = call.mac.path.get_ident().map(ToString::to_string).unwrap_or_default();
        let operands = match name.as_str() {
            "matches" => return self.matches(call),
            "assert" | "debug_assert" => 1,
            "assert_eq" | "assert_ne" | "debug_assert_eq" | "debug_assert_ne" => 2,
            _ => {
                return self.refuse(
                    call,
                    "of macros, `assert!`, `assert_eq!`, `assert_ne!`, `matches!` and `panic!` have one",
                );
            }
        };
        let parsed = Punctuated::<Expr, Token![,]>::parse_terminated.parse2(call.mac.tokens.clone());
        let Ok(all) = parsed else {
            return self.refuse(call, "this cannot be read as an assertion");
        };
        let all: Vec<Expr> = all.into_iter().collect();
        let (Some(values), rest) = (all.get(..operands), all.get(operands..).unwrap_or_default()) else {
            return self.refuse(call, "an assertion has a condition");
        };
        let written = format!("the assertion failed: {}", crate::tokens::text(&values[0]));
        let text = panic_text(rest.first().map(ToTokens::to_token_stream).unwrap_or_default(), &written);
        let values: Vec<TokenStream> = values.iter().map(|value| self.value(value)).collect();
        let condition = match (name.ends_with("_eq"), name.ends_with("_ne")) {
            (true, _) => quote!(#staging::eq(#(#values),*)),
            (_, true) => quote!(#staging::ne(#(#values),*)),
            _ => quote!(#(#values)*),
        };
        quote_spanned!(call.span()=> #staging::branch(#condition, || (), || #staging::panics(#text)))
    }
}

/// The text of a panic, without the values in it.
fn panic_text(tokens: TokenStream, otherwise: &str) -> String {
    match tokens.into_iter().next().map(|token| syn::parse2::<syn::LitStr>(token.into())) {
        Some(Ok(text)) => text.value(),
        _ => otherwise.to_owned(),
    }
}
