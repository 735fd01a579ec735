// "Attention Is All You Need" (Vaswani et al., 2017) once more, in JavaScript: text in, text out. It runs the small model
// of the package, 1.6 million weights in 8-bit integers. § names the paper's sections. A vector is a Float32Array of
// d_model numbers, a sentence an array of vectors, one for each token.

// ---- Vectors and matrices

const add = (x, y) => x.map((v, i) => v + y[i])

const dot = (x, y, from, to) => {
  let sum = 0
  for (let i = from; i < to; i++) sum += x[i]*y[i]
  return sum
}

const largest = x => x.reduce((most, v) => Math.max(most, Math.abs(v)), 1e-9)

// As processors round: a half goes to the even neighbour.
const rounded = v => {
  const up = Math.round(v)
  return up - v === .5 && up % 2 ? up - 1 : up
}

// Wx + b. The rows of W are whole numbers from −127 to 127 with one scale each; x is rounded to steps of 1/63 of its
// largest number, as the package does with int8=True.
const linear = ({W, scale, bias}, x) => {
  const n = x.length, unit = largest(x), whole = Int8Array.from(x.map(v => rounded(v/unit*63)))
  const out = new Float32Array(scale.length)
  for (let row = 0, at = 0; row < out.length; row++) {
    let sum = 0
    for (let i = 0; i < n; i++) sum += W[at++]*whole[i]
    out[row] = sum*scale[row]/63*unit + (bias ? bias[row] : 0)
  }
  return out
}

const softmax = scores => {
  const most = Math.max(...scores), powers = scores.map(s => Math.exp(s - most))
  const total = powers.reduce((sum, p) => sum + p, 0)
  return powers.map(p => p/total)
}

// LayerNorm: mean 0 and variance 1, then a learned gain and shift for each number (§3.1).
const layerNorm = ({weight, bias}, x) => {
  const mean = x.reduce((sum, v) => sum + v, 0)/x.length
  const variance = x.reduce((sum, v) => sum + (v - mean)**2, 0)/x.length
  return x.map((v, i) => (v - mean)/Math.sqrt(variance + 1e-5)*weight[i] + bias[i])
}

// ---- Attention (§3.2)

// Equation 1, softmax(QKᵀ/√d_k)V, for one query and every head (§3.2.2): a head owns d_k numbers of each vector. One that
// is silenced looks, too, but what it has found stays 0.
const attention = (query, keys, values, h, isSilent) => {
  const d_k = query.length/h, out = new Float32Array(query.length), maps = []
  for (let head = 0; head < h; head++) {
    const from = head*d_k, to = from + d_k
    const weights = softmax(keys.map(key => dot(query, key, from, to)/Math.sqrt(d_k)))
    if (!isSilent(head)) weights.forEach((weight, j) => { for (let i = from; i < to; i++) out[i] += weight*values[j][i] })
    maps.push(weights)
  }
  return {out, maps}
}

// ---- Feed-forward (§3.3): max(0, xW₁ + b₁)W₂ + b₂

const hiddenOf = ({W_1}, x) => linear(W_1, x).map(v => Math.max(0, v))

// ---- The model (§3.1, figure 1), with the norm before each sub-layer, as the small model has it

// Around each sub-layer: the norm before it, what it makes of all vectors, and the sum with what came in (§3.1). `seen`
// is given what a reader may want to look at.
const residual = (seen, norm, xs, sublayer) => {
  const normed = xs.map(x => layerNorm(norm, x)), found = sublayer(normed), added = xs.map((x, i) => add(x, found[i]))
  seen.norm.push(normed)
  seen.add.push(added)
  return added
}

export class Transformer {
  silenced = new Set()  // heads that contribute nothing, by their names: 'encoder.0.3', 'decoder.0.3', 'cross.0.3'

  constructor({cfg, tensors}) {
    Object.assign(this, {cfg, tensors, embedding: tensors.embedding})
    this.encoder = this.stack('encoder')
    this.decoder = this.stack('decoder')
  }

  // The layers of a stack: their tensors by name, 'encoder.0.feed_forward.W_1' and so on.
  stack(side) {
    return Array.from({length: this.cfg.N}, (_, n) => {
      const of = name => this.tensors[`${side}.${n}.${name}`]
      const heads = kind => Object.fromEntries(['W_q', 'W_k', 'W_v', 'W_o'].map(W => [W, of(`${kind}.${W}`)]))
      return {
        self: heads('self_attention'), cross: heads('cross_attention'), norms: [0, 1, 2].map(i => of(`residuals.${i}.norm`)),
        ffn: {W_1: of('feed_forward.W_1'), W_2: of('feed_forward.W_2')},
      }
    })
  }

  // A token's row of the embedding times √d_model (§3.4), plus sine and cosine of its position (§3.5).
  embed(id, position) { return add(this.row(id), this.position(position)) }

  row(id) {
    const {d_model} = this.cfg
    return this.embedding.exact.slice(id*d_model, (id + 1)*d_model).map(v => v*Math.sqrt(d_model))
  }

  position(position) {
    const {d_model} = this.cfg, angle = i => position/10000**((i - i % 2)/d_model)
    return Float32Array.from({length: d_model}, (_, i) => i % 2 ? Math.cos(angle(i)) : Math.sin(angle(i)))
  }

  // Multi-head attention: query i looks at the first `visible(i)` keys. `name` is that of the kind and the layer.
  heads({W_q, W_o}, name, xs, K, V, visible = () => K.length) {
    const isSilent = head => this.silenced.has(`${name}.${head}`)
    const looks = xs.map((x, i) => {
      const m = visible(i)
      return attention(linear(W_q, x), K.slice(0, m), V.slice(0, m), this.cfg.h, isSilent)
    })
    return {out: looks.map(({out}) => linear(W_o, out)), maps: looks.map(({maps}) => maps)}
  }

  feedForward({W_1, W_2}, xs, seen) {
    seen.hidden = xs.map(x => hiddenOf({W_1}, x))
    return seen.hidden.map(x => linear(W_2, x))
  }

  // The encoder: every token looks at all tokens. The result is the memory.
  encode(ids) {
    let xs = ids.map((id, position) => this.embed(id, position))
    const seen = this.encoder.map(({self, norms, ffn}, n) => {
      const own = {norm: [], add: []}
      xs = residual(own, norms[0], xs, normed => {
        const K = normed.map(x => linear(self.W_k, x)), V = normed.map(x => linear(self.W_v, x))
        const {out, maps} = this.heads(self, `encoder.${n}`, normed, K, V)
        own.self = maps
        return out
      })
      xs = residual(own, norms[1], xs, normed => this.feedForward(ffn, normed, own))
      return own
    })
    return {memory: xs.map(x => layerNorm(this.tensors.encoder_norm, x)), seen}
  }

  // What the decoder remembers: keys and values of the memory, computed once, and of the tokens written so far.
  begin(ids) { return this.beginWith(this.encode(ids).memory) }

  beginWith(memory) {
    const project = map => memory.map(x => linear(map, x))
    return {length: 0, layers: this.decoder.map(({cross}) => (
      {K: [], V: [], memoryK: project(cross.W_k), memoryV: project(cross.W_v)}
    ))}
  }

  // The decoder: the newest tokens in, for each a score for every next token out. A token sees itself and those before
  // it: that is the causal mask, without which it also sees the new ones after it. `past` is not changed, so beams can
  // share it.
  decode(past, ids, masked = true) {
    let ys = ids.map((id, i) => this.embed(id, past.length + i))
    const layers = [], visible = i => past.length + (masked ? i + 1 : ids.length)
    const seen = this.decoder.map(({self, cross, norms, ffn}, n) => {
      const before = past.layers[n], own = {norm: [], add: []}
      ys = residual(own, norms[0], ys, normed => {
        const K = [...before.K, ...normed.map(y => linear(self.W_k, y))]
        const V = [...before.V, ...normed.map(y => linear(self.W_v, y))]
        const {out, maps} = this.heads(self, `decoder.${n}`, normed, K, V, visible)
        layers.push({...before, K, V})
        own.self = maps
        return out
      })
      ys = residual(own, norms[1], ys, normed => {
        const {out, maps} = this.heads(cross, `cross.${n}`, normed, before.memoryK, before.memoryV)
        own.cross = maps
        return out
      })
      ys = residual(own, norms[2], ys, normed => this.feedForward(ffn, normed, own))
      return own
    })
    return {scores: ys.map(y => this.scores(y)), past: {length: past.length + ids.length, layers}, seen}
  }

  // The same matrix once more (§3.4); padding and the start may never be said.
  scores(y) {
    const scores = linear(this.embedding, layerNorm(this.tensors.decoder_norm, y))
    scores[this.cfg.pad_id] = scores[this.cfg.bos_id] = -Infinity
    return scores
  }

  // One step: the newest token in, the scores of the next one out.
  step(past, id) {
    const {scores: [scores], past: now} = this.decode(past, [id])
    return {scores, past: now}
  }
}

// ---- Decoding (§6.1)

const longest = (model, ids) => Math.min(ids.length + 50, model.cfg.max_len)

// The most probable token at every step.
export const greedy = (model, ids, tell = () => {}) => {
  const written = []
  let past = model.begin(ids), id = model.cfg.bos_id
  while (written.length < longest(model, ids)) {
    const step = model.step(past, id)
    past = step.past
    id = step.scores.indexOf(Math.max(...step.scores))
    if (id === model.cfg.eos_id) break
    written.push(id)
    tell(written)
  }
  return written
}

const logSoftmax = scores => {
  const most = Math.max(...scores), total = scores.reduce((sum, s) => sum + Math.exp(s - most), 0)
  return scores.map(s => s - most - Math.log(total))
}

const penalty = (length, alpha) => ((5 + length)/6)**alpha

// Every open hypothesis with its 2k best next tokens; the 2k best of all.
const candidates = (model, open, k) => {
  const all = open.flatMap(hypothesis => {
    const {scores, past} = model.step(hypothesis.past, hypothesis.last), logp = logSoftmax(scores)
    return best(logp, 2*k).map(id => ({past, last: id, ids: [...hypothesis.ids, id], logp: hypothesis.logp + logp[id]}))
  })
  return all.sort((a, b) => b.logp - a.logp).slice(0, 2*k)
}

// Beam search with length penalty α. A finished hypothesis leaves the beam and is kept; the search ends when no open one
// can become better than the best finished one, for log-probabilities only fall.
export const beamSearch = (model, ids, k = 4, alpha = .6) => {
  const {bos_id, eos_id} = model.cfg, limit = longest(model, ids)
  let open = [{past: model.begin(ids), last: bos_id, ids: [], logp: 0}], finished = []
  for (let length = 1; length <= limit; length++) {
    const found = candidates(model, open, k), scored = ({ids, logp}) => ({ids, score: logp/penalty(length, alpha)})
    finished.push(...found.slice(0, k).filter(c => c.last === eos_id).map(scored))
    open = found.filter(c => c.last !== eos_id).slice(0, k)
    if (length === limit && !finished.length) finished = open.map(scored)
    const best = Math.max(...finished.map(f => f.score)), possible = Math.max(...open.map(c => c.logp))
    if (best >= possible/penalty(limit, alpha)) break
  }
  const {ids: winner} = finished.reduce((a, b) => b.score > a.score ? b : a)
  return winner.filter(id => id !== eos_id)
}

// ---- Everything that can be looked at while the model reads a sentence and its translation, both as tokens. A map of
// attention is maps[kind][layer][head][query][key]; `next` has the five most probable tokens of each step and their
// probabilities, `chosen` the probability of the one that stands there. Without the mask the decoder sees what it is to say.
export const read = (model, ids, written, masked = true) => {
  const {bos_id, eos_id} = model.cfg, {memory, seen} = model.encode(ids), said = [...written, eos_id]
  const heard = [bos_id, ...written], decoded = model.decode(model.beginWith(memory), heard, masked)
  const next = decoded.scores.map(softmax)
  return {
    maps: {
      encoder: seen.map(({self}) => square(self, ids.length)),
      decoder: decoded.seen.map(({self}) => square(self, heard.length)),
      cross: decoded.seen.map(({cross}) => square(cross, ids.length)),
    },
    next: next.map(p => best(p, 5).map(id => [id, p[id]])),
    chosen: next.map((p, i) => p[said[i]]),
    vectors: {encoder: inside(model, seen, ids), decoder: inside(model, decoded.seen, heard)},
  }
}

// From weights of each query and head to a map for each head; what a query may not see has the weight 0.
const square = (looks, m) => looks[0].map((_, head) => looks.map(heads => Array.from({length: m}, (_, j) => heads[head][j] ?? 0)))

const best = (numbers, n) => [...numbers.keys()].sort((a, b) => numbers[b] - numbers[a]).slice(0, n)

// All vectors of a place as one row of numbers, which travels fast from the worker to the page.
const flat = vectors => Float32Array.from(vectors.flatMap(vector => [...vector]))

const inside = (model, seen, ids) => ({
  embedding: flat(ids.map(id => model.row(id))),
  positions: flat(ids.map((_, position) => model.position(position))),
  layers: seen.map(({norm, add, hidden}) => ({norm: norm.map(flat), add: add.map(flat), hidden: flat(hidden)})),
})

// ---- Word pieces (§5.1): byte-pair encoding as SentencePiece does it, ▁ marks the start of a word

export class Tokenizer {
  constructor({pieces, unk_id}) {
    this.pieces = pieces
    this.ids = new Map(pieces.map((piece, id) => [piece, id]))
    this.unk_id = unk_id
  }

  // From single characters the earliest learned pair of neighbours is joined, again and again.
  split(text) {
    const clean = text.normalize('NFKC').replace(/\s+/g, ' ').trim(), parts = clean ? [...('▁' + clean.replaceAll(' ', '▁'))] : []
    const rank = i => this.ids.get(parts[i] + parts[i + 1]) ?? Infinity  // pieces are numbered as they were learned
    for (;;) {
      const ranks = parts.slice(1).map((_, i) => rank(i)), first = Math.min(...ranks)
      if (first === Infinity) return parts
      parts.splice(ranks.indexOf(first), 2, this.pieces[first])
    }
  }

  // Several unknown characters in a row become one unknown piece.
  encode(text) {
    const ids = this.split(text).map(part => this.ids.get(part) ?? this.unk_id)
    return ids.filter((id, i) => id !== this.unk_id || ids[i - 1] !== id)
  }

  decode(ids) { return ids.map(id => id === this.unk_id ? ' ⁇ ' : this.pieces[id]).join('').replaceAll('▁', ' ').replace(/^ /, '') }
}

// ---- The file: a header in JSON, then the low bytes of all 16-bit numbers, their high bytes, and all 8-bit numbers; the
// whole packed with gzip

export const unpack = async packed => {
  const plain = await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'))).arrayBuffer()
  const size = new DataView(plain).getUint32(0, true), header = JSON.parse(new TextDecoder().decode(new Uint8Array(plain, 4, size)))
  const count = header.tensors.reduce((sum, [, , bits, length]) => sum + (bits === 16 && length), 0)
  const [low, high] = [0, 1].map(plane => new Uint8Array(plain, 4 + size + plane*count, count))
  const numbers = {16: Float32Array.from(low, (byte, i) => half(byte, high[i])), 8: new Int8Array(plain, 4 + size + 2*count)}
  const at = {16: 0, 8: 0}, tensors = {}
  for (const [place, part, bits, length] of header.tensors) {
    tensors[place] = {...tensors[place], [part]: numbers[bits].subarray(at[bits], at[bits] += length)}
  }
  for (const tensor of Object.values(tensors)) if (tensor.W) tensor.scale = tensor.largest.map(v => v/127)
  tensors.embedding = embedding(tensors.embedding, header.cfg.d_model)
  return {model: new Transformer({cfg: header.cfg, tensors}), tokenizer: new Tokenizer(header), words: new Set(header.words)}
}

// A number of 16 bits from its two bytes: sign, 5 bits of exponent, 10 of fraction.
const half = (low, high) => {
  const exponent = high >> 2 & 31, fraction = (high & 3)*256 + low
  const size = exponent ? (1 + fraction/1024)*2**(exponent - 15) : fraction*2**-24
  return high & 128 ? -size : size
}

// The embedding looks words up with all its bits, and scores them with 8, as the package does.
const embedding = ({exact}, d_model) => {
  const rows = Array.from({length: exact.length/d_model}, (_, row) => exact.subarray(row*d_model, (row + 1)*d_model))
  const scale = Float32Array.from(rows, row => largest(row)/127)
  const W = Int8Array.from(exact, (v, i) => rounded(Math.fround(v*Math.fround(1/scale[Math.floor(i/d_model)]))))
  return {exact, scale, W}
}
