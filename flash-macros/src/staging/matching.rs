//! Patterns that a value fits or not: `match`, a chain of `if`; `if let`, `while let`, `let .. else` and
//! `matches!`.

use super::Stager;
use super::expression::{own, unparenthesised};
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::parse::{ParseStream, Parser};
use syn::spanned::Spanned;
use syn::{
    Arm, BinOp, Block, Expr, ExprMacro, ExprMatch, ExprRange, Index, Pat, PatTupleStruct, RangeLimits, Token,
};

const PATTERNS: &str = "the patterns of `match`, `if let` and `let .. else` are literals, constants, ranges, tuples, `[a, b]`, structs, `Some`, `None`, `Ok`, `Err(_)`, names and `_`; write `if`";

const NO_ERROR: &str = "only the host has the words of an error: write `Err(_)`, or hand it on by `?`";

/// The operands of a chain of `&&`.
pub(super) fn conditions(expression: &Expr) -> Vec<&Expr> {
    match unparenthesised(expression) {
        Expr::Binary(binary) if matches!(binary.op, BinOp::And(_)) => {
            let (mut all, rest) = (conditions(&binary.left), conditions(&binary.right));
            all.extend(rest);
            all
        }
        single => vec![single],
    }
}

pub(super) fn has_let(conditions: &[&Expr]) -> bool {
    conditions.iter().any(|condition| matches!(condition, Expr::Let(_)))
}

/// A pattern that is tried on a value.
struct Trial {
    /// Gives the value a name.
    head: TokenStream,
    /// When the pattern fits; `None`: always.
    fits: Option<TokenStream>,
    /// What the pattern names, where it fits.
    bindings: Vec<TokenStream>,
}

impl Stager<'_> {
    /// Tries a pattern. What it names is known in the scope from here on.
    fn trial(&mut self, pattern: &Pat, value: &Expr) -> Trial {
        let (staging, value) = (self.staging, self.value(value));
        let (matched, mut bindings) = (own("matched").into_token_stream(), Vec::new());
        let fits = self.condition(pattern, &matched, &mut bindings);
        Trial { head: quote!(let #matched = #staging::Value::named(#value, "m");), fits, bindings }
    }

    /// When a pattern fits and its guard holds.
    fn guarded(
        &self,
        fits: Option<TokenStream>,
        bindings: &[TokenStream],
        guard: Option<TokenStream>,
    ) -> TokenStream {
        let staging = self.staging;
        let fits = fits.unwrap_or_else(|| quote!(#staging::literal(true)));
        match guard {
            Some(guard) => quote!(#staging::and(#fits, || { #(#bindings)* #guard })),
            None => fits,
        }
    }

    pub(super) fn matched(&mut self, expression: &ExprMatch) -> TokenStream {
        let staging = self.staging;
        let value = self.value(&expression.expr);
        let matched = own("matched").into_token_stream();
        let chain = self.arms(&expression.arms, &matched);
        quote_spanned! {expression.span()=> {
            let #matched = #staging::Value::named(#value, "m");
            #chain
        }}
    }

    /// `if let a = b && c { then } else { otherwise }`.
    pub(super) fn if_all(
        &mut self,
        conditions: &[&Expr],
        then: impl FnOnce(&mut Self) -> TokenStream,
        otherwise: &TokenStream,
    ) -> TokenStream {
        let staging = self.staging;
        if let [Expr::Let(only)] = conditions {
            return self.if_let((&only.pat, &only.expr), then, otherwise);
        }
        // Whether all of them hold is known where the last one is: that is the only place for the block.
        let inside = self.nested(conditions, then);
        let all = own("all");
        quote! {{
            let #all = #inside;
            #staging::branch(#all.is_some(), || #all.inside(), || #otherwise)
        }}
    }

    /// The block's value where all conditions hold, as an `Option`.
    fn nested(&mut self, conditions: &[&Expr], then: impl FnOnce(&mut Self) -> TokenStream) -> TokenStream {
        let staging = self.staging;
        let none = quote!(#staging::none());
        // From the outermost to the innermost: a name is known to those behind it.
        self.scope.enter();
        let mut heads = Vec::new();
        for condition in conditions {
            heads.push(match condition {
                Expr::Let(condition) => {
                    let Trial { head, fits, bindings } = self.trial(&condition.pat, &condition.expr);
                    (head, self.guarded(fits, &bindings, None), bindings)
                }
                condition => (TokenStream::new(), self.value(condition), Vec::new()),
            });
        }
        let then = then(self);
        self.scope.leave();
        heads.into_iter().rev().fold(quote!(#staging::some(#then)), |inside, (first, fits, bindings)| {
            quote!({ #first #staging::branch(#fits, || { #(#bindings)* #inside }, || #none) })
        })
    }

    fn if_let(
        &mut self,
        (pattern, value): (&Pat, &Expr),
        then: impl FnOnce(&mut Self) -> TokenStream,
        otherwise: &TokenStream,
    ) -> TokenStream {
        let staging = self.staging;
        self.scope.enter();
        let Trial { head, fits, bindings } = self.trial(pattern, value);
        let then = then(self);
        self.scope.leave();
        let then = quote!({ #(#bindings)* #then });
        let chosen = match fits {
            Some(fits) => quote_spanned!(pattern.span()=> #staging::branch(#fits, || #then, || #otherwise)),
            None => then,
        };
        quote!({ #head #chosen })
    }

    /// `let pattern = value else { otherwise };`.
    pub(super) fn let_else(&mut self, pattern: &Pat, value: &Expr, otherwise: &Block) -> TokenStream {
        let staging = self.staging;
        let otherwise = self.block(otherwise);
        let Trial { head, fits, bindings } = self.trial(pattern, value);
        let ends = fits.map(|fits| {
            quote_spanned!(pattern.span()=> let () = #staging::branch(#staging::not(#fits), || #otherwise, || ());)
        });
        quote!(#head #ends #(#bindings)*)
    }

    /// `matches!(value, pattern if guard)`.
    pub(super) fn matches(&mut self, call: &ExprMacro) -> TokenStream {
        let parse = |input: ParseStream<'_>| {
            let value: Expr = input.parse()?;
            input.parse::<Token![,]>()?;
            let pattern = Pat::parse_multi_with_leading_vert(input)?;
            let guard = match input.parse::<Option<Token![if]>>()? {
                Some(_) => Some(input.parse::<Expr>()?),
                None => None,
            };
            input.parse::<Option<Token![,]>>()?;
            Ok((value, pattern, guard))
        };
        let Ok((value, pattern, guard)) = parse.parse2(call.mac.tokens.clone()) else {
            return self.refuse(call, "this cannot be read as a value and a pattern");
        };
        self.scope.enter();
        let Trial { head, fits, bindings } = self.trial(&pattern, &value);
        let guard = guard.map(|guard| self.value(&guard));
        self.scope.leave();
        let fits = self.guarded(fits, &bindings, guard);
        quote!({ #head #fits })
    }

    fn arms(&mut self, arms: &[Arm], value: &TokenStream) -> TokenStream {
        let staging = self.staging;
        let Some((arm, rest)) = arms.split_first() else {
            return quote!(#staging::never());
        };
        self.scope.enter();
        let mut bindings = Vec::new();
        let condition = self.condition(&arm.pat, value, &mut bindings);
        let guard = arm.guard.as_ref().map(|(_, guard)| self.value(guard));
        let body = self.value(&arm.body);
        self.scope.leave();
        let body = quote!({ #(#bindings)* #body });
        // rustc has checked the first function: the last arm takes what is left.
        if guard.is_none() && (condition.is_none() || rest.is_empty()) {
            return body;
        }
        let condition = self.guarded(condition, &bindings, guard);
        let otherwise = self.arms(rest, value);
        quote_spanned!(arm.span()=> #staging::branch(#condition, || #body, || #otherwise))
    }

    /// When a pattern fits a value; `None`: always.
    fn condition(
        &mut self,
        pattern: &Pat,
        value: &TokenStream,
        bindings: &mut Vec<TokenStream>,
    ) -> Option<TokenStream> {
        let staging = self.staging;
        let now = quote!(#staging::Value::read(&#value));
        match pattern {
            Pat::Wild(_) => None,
            Pat::Paren(paren) => self.condition(&paren.pat, value, bindings),
            Pat::Ident(name) if name.ident == "None" => Some(quote_spanned!(name.span()=> #value.is_none())),
            Pat::TupleStruct(variant) if variant.elems.len() == 1 => self.variant(variant, value, bindings),
            Pat::Ident(name) if name.ident.to_string().starts_with(char::is_uppercase) => {
                Some(quote_spanned!(name.span()=> #staging::eq(#now, #staging::constant(#name))))
            }
            Pat::Ident(name) if name.by_ref.is_none() && name.subpat.is_none() => {
                self.scope.add(&name.ident);
                let (is_variable, name) = (name.mutability.is_some(), &name.ident);
                let hint = crate::definition_name(name);
                bindings.push(match is_variable {
                    true => quote!(let #name = #staging::Value::variable(#now, #hint);),
                    false => quote!(let #name = #now;),
                });
                None
            }
            Pat::Lit(literal) => {
                let literal = self.value(&Expr::Lit(literal.clone()));
                Some(quote_spanned!(pattern.span()=> #staging::eq(#now, #literal)))
            }
            Pat::Path(path) => {
                Some(quote_spanned!(pattern.span()=> #staging::eq(#now, #staging::constant(#path))))
            }
            Pat::Range(range) => self.within(range, &now),
            Pat::Or(or) => {
                let mut cases = or.cases.iter().map(|case| self.condition(case, value, bindings));
                let first = cases.next()??;
                let rest: Option<Vec<TokenStream>> = cases.collect();
                Some(rest?.into_iter().fold(first, |all, case| quote!(#staging::or(#all, || #case))))
            }
            Pat::Tuple(tuple) => {
                let parts = tuple.elems.iter().enumerate();
                let parts = parts.map(|(at, part)| (part, Index::from(at)));
                self.all(parts.map(|(part, at)| (part, quote!(#value.#at))), bindings)
            }
            Pat::Slice(slice) if !slice.elems.iter().any(|part| matches!(part, Pat::Rest(_))) => {
                let parts = slice.elems.iter().enumerate();
                self.all(parts.map(|(at, part)| (part, quote!(#staging::elements(#now)[#at]))), bindings)
            }
            Pat::Struct(structure) => {
                let parts = structure.fields.iter().map(|field| (&*field.pat, &field.member));
                self.all(parts.map(|(part, member)| (part, quote!(#value.#member))), bindings)
            }
            other => {
                self.refuse(other, PATTERNS);
                None
            }
        }
    }

    /// When all parts of a pattern fit those of a value.
    fn all<'p>(
        &mut self,
        parts: impl Iterator<Item = (&'p Pat, TokenStream)>,
        bindings: &mut Vec<TokenStream>,
    ) -> Option<TokenStream> {
        let staging = self.staging;
        let parts = parts.filter_map(|(part, value)| self.condition(part, &value, bindings));
        let parts: Vec<TokenStream> = parts.collect();
        parts.into_iter().reduce(|all, part| quote!(#staging::and(#all, || #part)))
    }

    /// `Some(..)`, `Ok(..)` or `Err(_)`.
    fn variant(
        &mut self,
        variant: &PatTupleStruct,
        value: &TokenStream,
        bindings: &mut Vec<TokenStream>,
    ) -> Option<TokenStream> {
        let (staging, inside) = (self.staging, &variant.elems[0]);
        let test = match variant.path.get_ident().map(ToString::to_string).as_deref() {
            Some("Some") => "is_some",
            Some("Ok") => "is_ok",
            Some("Err") if matches!(inside, Pat::Wild(_) | Pat::Rest(_)) => {
                return Some(quote_spanned!(variant.span()=> #value.is_err()));
            }
            Some("Err") => {
                self.refuse(inside, NO_ERROR);
                return None;
            }
            _ => {
                self.refuse(variant, PATTERNS);
                return None;
            }
        };
        let test = Ident::new(test, variant.span());
        let fits = quote_spanned!(variant.span()=> #value.#test());
        match self.condition(inside, &quote!(#value.inside()), bindings) {
            Some(inside) => Some(quote!(#staging::and(#fits, || #inside))),
            None => Some(fits),
        }
    }

    fn within(&mut self, range: &ExprRange, value: &TokenStream) -> Option<TokenStream> {
        let staging = self.staging;
        let begin = range.start.as_ref().map(|begin| {
            let begin = self.value(begin);
            quote!(#staging::ge(#value, #begin))
        });
        let operator = match range.limits {
            RangeLimits::HalfOpen(_) => quote!(lt),
            RangeLimits::Closed(_) => quote!(le),
        };
        let end = range.end.as_ref().map(|end| {
            let end = self.value(end);
            quote!(#staging::#operator(#value, #end))
        });
        match (begin, end) {
            (Some(begin), Some(end)) => Some(quote!(#staging::and(#begin, || #end))),
            (begin, end) => begin.or(end),
        }
    }
}
