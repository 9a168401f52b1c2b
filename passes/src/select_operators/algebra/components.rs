//! Which choices of an e-graph depend on each other.
//!
//! Some classes are in every program: those that every alternative of a class in it needs. A choice
//! among alternatives that need only such classes is a choice of its own; choices that may share
//! other classes belong together. Components of the latter are searched on their own, so a model of
//! many blocks costs the sum of its blocks and not their product.

use super::frozen::{ClassId, Content, Frozen};

/// Sets of classes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bits(Vec<u64>);

impl Bits {
    fn none(n: usize) -> Self {
        Bits(vec![0; n.div_ceil(64)])
    }

    fn all(n: usize) -> Self {
        Bits(vec![u64::MAX; n.div_ceil(64)])
    }

    /// Adds an element.
    pub fn insert(&mut self, i: ClassId) {
        self.0[i as usize / 64] |= 1 << (i % 64);
    }

    /// Whether it has an element.
    pub fn contains(&self, i: ClassId) -> bool {
        self.0[i as usize / 64] >> (i % 64) & 1 == 1
    }

    fn add(&mut self, other: &Bits) {
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a |= b);
    }

    fn keep(&mut self, other: &Bits) {
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a &= b);
    }
}

/// The structure of the choices.
pub struct Structure {
    /// By class, what every program needs that has the class; itself included. Values that the host
    /// knows are no part of it.
    pub needs: Vec<Bits>,
    /// In every program.
    pub required: Bits,
    /// By class, the alternatives that can be in a program: not those that need their own class.
    pub usable: Vec<Vec<usize>>,
    /// Classes that can be in a program, by component, each ascending; components by first class.
    pub components: Vec<Vec<ClassId>>,
    /// Classes by how far they are from the leaves; users before what they use, where there is no
    /// cycle.
    pub height: Vec<u32>,
}

/// Whether a class is searched: what the host knows costs nothing.
pub fn searched(frozen: &Frozen, c: ClassId) -> bool {
    let class = frozen.class(c);
    !class.host && !class.types.is_empty()
}

/// Finds the structure.
pub fn structure(frozen: &Frozen) -> Structure {
    let n = frozen.classes.len();
    let children = |c: usize, k: usize| {
        let node = &frozen.classes[c].nodes[k];
        let leaf = matches!(node.content, Content::Input(_));
        frozen
            .operands(node)
            .filter(move |_| !leaf)
            .filter(|&d| searched(frozen, d))
    };
    // The greatest solution of needs(c) = c + what all alternatives need.
    let mut needs: Vec<Bits> = vec![Bits::all(n); n];
    let mut changed = true;
    while changed {
        changed = false;
        for c in 0..n {
            if !searched(frozen, c as ClassId) {
                continue;
            }
            let mut own = Bits::all(n);
            for k in 0..frozen.classes[c].nodes.len() {
                let mut one = Bits::none(n);
                for d in children(c, k) {
                    one.add(&needs[d as usize]);
                }
                own.keep(&one);
            }
            own.insert(c as ClassId);
            if own != needs[c] {
                needs[c] = own;
                changed = true;
            }
        }
    }
    let usable: Vec<Vec<usize>> = (0..n)
        .map(|c| {
            let nodes = 0..frozen.classes[c].nodes.len();
            nodes
                .filter(|&k| children(c, k).all(|d| !needs[d as usize].contains(c as ClassId)))
                .collect()
        })
        .collect();
    let mut required = Bits::none(n);
    for &c in frozen.outputs.iter().filter(|&&c| searched(frozen, c)) {
        required.add(&needs[c as usize]);
    }
    // What can be reached, and the order in which a walk leaves it.
    let mut height = vec![0; n];
    let mut seen = vec![false; n];
    let mut next = 0;
    for &root in &frozen.outputs {
        let mut stack = vec![(root, false)];
        while let Some((c, done)) = stack.pop() {
            if done {
                next += 1;
                height[c as usize] = next;
                continue;
            }
            if !searched(frozen, c) || std::mem::replace(&mut seen[c as usize], true) {
                continue;
            }
            stack.push((c, true));
            for &k in usable[c as usize].iter().rev() {
                stack.extend(children(c as usize, k).map(|d| (d, false)));
            }
        }
    }
    let mut parent: Vec<ClassId> = (0..n as ClassId).collect();
    for c in (0..n).filter(|&c| seen[c]) {
        for &k in &usable[c] {
            for d in children(c, k).filter(|&d| !required.contains(d)) {
                let (a, b) = (root(&mut parent, c as ClassId), root(&mut parent, d));
                parent[a.max(b) as usize] = a.min(b);
            }
        }
    }
    let mut components: Vec<Vec<ClassId>> = Vec::new();
    let mut number = vec![usize::MAX; n];
    for c in (0..n as ClassId).filter(|&c| seen[c as usize]) {
        let r = root(&mut parent, c) as usize;
        if number[r] == usize::MAX {
            number[r] = components.len();
            components.push(Vec::new());
        }
        components[number[r]].push(c);
    }
    Structure {
        needs,
        required,
        usable,
        components,
        height,
    }
}

fn root(parent: &mut [ClassId], mut c: ClassId) -> ClassId {
    while parent[c as usize] != c {
        parent[c as usize] = parent[parent[c as usize] as usize];
        c = parent[c as usize];
    }
    c
}
