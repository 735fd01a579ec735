// Equation 3: the learning rate rises to the end of the warm-up, then it falls with the root of the step.
const rate = (step, {width, warmup, factor}) => factor * width ** -.5 * Math.min(step ** -.5, step * warmup ** -1.5)
const PAPER = {width: 512, warmup: 4000, factor: 1}
const LAST = 40000

const drawRates = (svg, mine, top) => {
  svg.replaceChildren()
  const x = step => 8 + 324 * step / LAST, y = r => 166 - 126 * r / top
  const line = (setting, look) => {
    const steps = [...Array(161).keys()].map(k => 1 + k * (LAST - 1) / 160).concat(setting.warmup).sort((a, b) => a - b)
    const points = steps.map(s => `${x(s).toFixed(1)},${y(rate(s, setting)).toFixed(1)}`).join(' ')
    add(svg, 'polyline', {points, fill: 'none', stroke: 'currentColor', ...look})
  }
  add(svg, 'line', {x1: 8, x2: 332, y1: 166, y2: 166, stroke: 'currentColor'})
  for (const step of [0, 20000, 40000]) {
    const anchor = step === 0 ? 'start' : step === LAST ? 'end' : 'middle'
    add(svg, 'text', {x: x(step), y: 182, 'text-anchor': anchor}, step.toLocaleString('en'))
  }
  add(svg, 'text', {x: x(10000), y: 182, 'text-anchor': 'middle'}, say('step'))
  line(PAPER, {'stroke-width': 2, 'stroke-opacity': .6, 'stroke-dasharray': '5 4'})
  line(mine, {'stroke-width': 3})
  for (const [setting, fill] of [[PAPER, 'none'], [mine, 'currentColor']]) {
    const at = {cx: x(setting.warmup), cy: y(rate(setting.warmup, setting))}
    add(svg, 'circle', {...at, r: 5, fill, stroke: 'currentColor'})
  }
  const peak = rate(mine.warmup, mine).toPrecision(3)
  const names = [say('dashed, open circle: the paper'), say('dot: peak {peak}', {peak})]
  names.forEach((text, i) => add(svg, 'text', {x: 332, y: 12 + 16 * i, 'text-anchor': 'end'}, text))
}

begin('warmup', me => {
  slider(me, 'warmup', say('warm-up steps'), [1, 100, 200, 400, 1000, 2000, 4000, 8000, 16000, 32000], 4000)
  slider(me, 'width', 'd_model', [64, 128, 256, 512, 1024], 512)
  slider(me, 'factor', say('factor'), [.25, .5, 1, 2, 4], 1)
  const svg = picture(me, 190, say('Learning rate against step; dashed: the base model of the paper'))
  me.show = () => {
    const {warmup} = me.at, peak = rate(warmup, me.at), paper = rate(4000, PAPER), later = 4 * warmup
    drawRates(svg, me.at, Math.max(peak, paper))
    const numbers = {peak, paper, times: peak / paper, low: rate(later, me.at), at_100: rate(100, me.at)}
    const found = {warmup, later}
    for (const name in numbers) found[name] = numbers[name].toPrecision(3)
    me.tell(
      say('The rate rises for {warmup} steps to its peak {peak} and has fallen to {low} at step {later}. ', found) +
      say('At step 100 it is {at_100}. ', found) +
      say("The paper's base model (d_model 512, 4000 steps, dashed) has its peak at {paper}: ", found) +
      (Math.abs(peak / paper - 1) < 1e-9 ? say('the same.') : say('yours is {times} times that.', found)))
  }
}, 'tnb-beside')
