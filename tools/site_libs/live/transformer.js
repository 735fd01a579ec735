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
  const unit = largest(x), whole = Int8Array.from(x, v => rounded(v/unit*63))
  return Float32Array.from(scale, (s, row) => {
    let sum = 0
    for (let i = 0, at = row*x.length; i < x.length; i++) sum += W[at + i]*whole[i]
    return sum*s/63*unit + (bias ? bias[row] : 0)
  })
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

// Equation 1, softmax(QKᵀ/√d_k)V, for one query and every head (§3.2.2): a head owns d_k numbers of each vector.
const attention = (query, keys, values, h) => {
  const d_k = query.length/h, out = new Float32Array(query.length), maps = []
  for (let head = 0; head < h; head++) {
    const from = head*d_k, to = from + d_k
    const weights = softmax(keys.map(key => dot(query, key, from, to)/Math.sqrt(d_k)))
    weights.forEach((weight, j) => { for (let i = from; i < to; i++) out[i] += weight*values[j][i] })
    maps.push(weights)
  }
  return {out, maps}
}

// ---- Feed-forward (§3.3): max(0, xW₁ + b₁)W₂ + b₂

const feedForward = ({W_1, W_2}, x) => linear(W_2, linear(W_1, x).map(v => Math.max(0, v)))

// ---- The model (§3.1, figure 1), with the norm before each sub-layer, as the small model has it

export class Transformer {
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
  embed(id, position) {
    const {d_model} = this.cfg, {exact} = this.embedding
    return Float32Array.from({length: d_model}, (_, i) => {
      const angle = position/10000**((i - i % 2)/d_model)
      return exact[id*d_model + i]*Math.sqrt(d_model) + (i % 2 ? Math.cos(angle) : Math.sin(angle))
    })
  }

  // The encoder: every token looks at all tokens. The result is the memory.
  encode(ids) {
    let xs = ids.map((id, position) => this.embed(id, position))
    for (const {self, norms, ffn} of this.encoder) {
      const normed = xs.map(x => layerNorm(norms[0], x))
      const [Q, K, V] = ['W_q', 'W_k', 'W_v'].map(W => normed.map(x => linear(self[W], x)))
      xs = xs.map((x, i) => add(x, linear(self.W_o, attention(Q[i], K, V, this.cfg.h).out)))
      xs = xs.map(x => add(x, feedForward(ffn, layerNorm(norms[1], x))))
    }
    return xs.map(x => layerNorm(this.tensors.encoder_norm, x))
  }

  // What the decoder remembers: keys and values of the memory, computed once, and of the tokens written so far.
  begin(ids) {
    const memory = this.encode(ids)
    const project = map => memory.map(x => linear(map, x))
    return {length: 0, layers: this.decoder.map(({cross}) => (
      {K: [], V: [], memoryK: project(cross.W_k), memoryV: project(cross.W_v)}
    ))}
  }

  // One step of the decoder: the newest token in, a score for every next token out. A token sees itself and those
  // before it, for later ones do not exist yet: that is the causal mask. `past` is not changed, so beams can share it.
  step(past, id) {
    const {h, pad_id, bos_id} = this.cfg, layers = [], cross = []
    let y = this.embed(id, past.length)
    this.decoder.forEach((layer, n) => {
      const before = past.layers[n], normed = layerNorm(layer.norms[0], y)
      const K = [...before.K, linear(layer.self.W_k, normed)], V = [...before.V, linear(layer.self.W_v, normed)]
      layers.push({...before, K, V})
      y = add(y, linear(layer.self.W_o, attention(linear(layer.self.W_q, normed), K, V, h).out))
      const query = linear(layer.cross.W_q, layerNorm(layer.norms[1], y))
      const {out, maps} = attention(query, before.memoryK, before.memoryV, h)
      y = add(y, linear(layer.cross.W_o, out))
      y = add(y, feedForward(layer.ffn, layerNorm(layer.norms[2], y)))
      cross.push(maps)
    })
    const scores = linear(this.embedding, layerNorm(this.tensors.decoder_norm, y))  // the same matrix once more (§3.4)
    scores[pad_id] = scores[bos_id] = -Infinity  // may never be said
    return {scores, past: {length: past.length + 1, layers}, cross}
  }
}

// ---- Decoding (§6.1)

const longest = (model, ids) => Math.min(ids.length + 50, model.cfg.max_len)

// The most probable token at every step.
export const greedy = (model, ids) => {
  const written = []
  let past = model.begin(ids), id = model.cfg.bos_id
  while (written.length < longest(model, ids)) {
    const step = model.step(past, id)
    past = step.past
    id = step.scores.indexOf(Math.max(...step.scores))
    if (id === model.cfg.eos_id) break
    written.push(id)
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
    const best = [...logp.keys()].sort((a, b) => logp[b] - logp[a]).slice(0, 2*k)
    return best.map(id => ({past, last: id, ids: [...hypothesis.ids, id], logp: hypothesis.logp + logp[id]}))
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

// Where each written token looked: weights[layer][head][token][source token], while the model reads a translation.
export const crossAttention = (model, ids, written) => {
  let past = model.begin(ids)
  const steps = [model.cfg.bos_id, ...written].map(id => {
    const step = model.step(past, id)
    past = step.past
    return step.cross
  })
  return steps[0].map((heads, layer) => heads.map((_, head) => steps.map(cross => cross[layer][head])))
}

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
